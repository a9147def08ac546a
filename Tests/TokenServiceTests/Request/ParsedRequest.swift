import PushModel
import StrictJSON
import TokenServiceSending

/// A body read as the API reads it.
struct ParsedRequest {
    /// 2026-11-21T12:00:00Z
    static let now: Int64 = 1_795_262_400_000
    static let hour: Int64 = 3_600_000

    let request: NotificationRequest?
    /// `pointer code`, one for each fault.
    let problems: [String]
    let details: [String]

    init(_ body: String, now: Int64 = now) throws {
        // Most tests of Live Activities are about their content, not about which one it is.
        let user = #"{"to":{"user":"ada"},"#
        let changesActivity = body.contains(/"event":"(update|end)"/) && body.hasPrefix(user)
        let bytes = Array((changesActivity ? #"{"to":{"user":"ada","activity":"ride"},"# + body.dropFirst(user.count) : body).utf8)
        var reader = JSONObjectReader(try JSONValue.parse(bytes))
        request = NotificationRequest(&reader, source: bytes, now: now)
        problems = reader.problems.list.map { "\($0.pointer) \($0.code)" }
        details = reader.problems.list.map(\.detail)
    }

    /// To one user, with something to show, and more.
    init(alert more: String) throws {
        try self.init(#"{"to":{"user":"ada"},"content":{"alert":"a"},\#(more)}"#)
    }

    init(to target: String) throws { try self.init(#"{"to":\#(target),"content":{"alert":"a"}}"#) }

    init(content: String, more: String = "") throws { try self.init(#"{"to":{"user":"ada"},"content":\#(content)\#(more)}"#) }

    init(payload: String, type: PushType? = nil) throws {
        let type = type.map { #","push_type":"\#($0.rawValue)""# } ?? ""
        try self.init(#"{"to":{"user":"ada"},"payload":\#(payload)\#(type)}"#)
    }

    var payload: String { String(decoding: request?.content.payload ?? [], as: UTF8.self) }
    /// `pointer code`, one for each.
    var warnings: [String] { (request?.warnings ?? []).map { "\($0.pointer) \($0.code.rawValue)" } }
}
