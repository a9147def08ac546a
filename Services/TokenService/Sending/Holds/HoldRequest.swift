package import PushModel
package import StrictJSON
import TokenServiceKit

/// The body of a request that sets a hold.
package struct HoldRequest: Equatable, Sendable {
    package static let maximumReasonBytes = 500
    /// The seconds that a hold may last: at most thirty days. A hold without an end lasts until it is lifted.
    package static let ttlSeconds: ClosedRange<Int64> = 1...2_592_000

    package var scope: HoldScope
    package var reason: String
    /// UNIX milliseconds.
    package var endsAt: Int64?

    /// Reports every fault in `body.problems`.
    /// - Parameters:
    ///   - app: nil for holds over every app, which cannot name a notification.
    ///   - now: UNIX milliseconds.
    package init?(_ body: inout JSONObjectReader, app: AppSlug?, now: Int64) {
        let named = ["all", "lane", "notification"].filter { body.has($0) }
        let isAll = body.optionalBool("all")
        let lane = body.optionalChoice("lane", of: Lane.self)
        let notification = body.optionalString("notification", maximumBytes: 36).map { text in
            let id = PushID(text)
            if id == nil { body.problem("notification", "invalid_id", "a UUID") }
            return id
        }
        if isAll == false { body.problem("all", "unsupported_value", "true, or leave it out") }
        if named.count != 1 {
            body.problem(named.last ?? "all", named.isEmpty ? "missing" : "conflict", "exactly one of all, lane and notification")
        }
        if app == nil, named.contains("notification") {
            body.problem("notification", "unsupported_value", "a notification is held under its app: /v1/apps/{app}/holds")
        }
        let reason = body.string("reason", maximumBytes: Self.maximumReasonBytes)
        endsAt = body.end(now: now)
        body.finish()
        guard body.problems.isEmpty, let reason, let scope = HoldScope(app: app, lane: lane, notification: notification ?? nil) else {
            return nil
        }
        self.scope = scope
        self.reason = reason
    }
}

extension HoldRequest {
    static let ofApp = JSONSchema.request(
        "NewHold", scope + [.omissible("notification", .uuid, "Or this notification of the app.")] + terms)
    static let ofEveryApp = JSONSchema.request("NewGlobalHold", scope + terms)

    private static let scope: [JSONSchema.Field] = [
        .omissible("all", .boolean, "`true`: everything. Exactly one of these is given."),
        .omissible("lane", .words(Lane.self), "Or this lane."),
    ]
    private static let terms: [JSONSchema.Field] = [
        .required(
            "reason", .string(maximumReasonBytes).example("wrong prices in the spring campaign"),
            "For other operators; at most 500 bytes."),
        .omissible("expires_at", .time, "When it ends by itself, at most 30 days ahead; left out, it lasts until it is lifted."),
        .omissible("ttl_seconds", .integer(ttlSeconds), "The same, from now on."),
    ]
}

extension JSONObjectReader {
    /// `expires_at` or `ttl_seconds`.
    fileprivate mutating func end(now: Int64) -> Int64? {
        let seconds = optionalInteger("ttl_seconds", in: HoldRequest.ttlSeconds)
        guard let text = optionalString("expires_at", maximumBytes: 64) else { return seconds.map { now + $0 * 1000 } }
        if has("ttl_seconds") { problem("ttl_seconds", "conflict", "only one of ttl_seconds and expires_at") }
        guard let end = RFC3339.milliseconds(text) else {
            problem("expires_at", "invalid_time", "an RFC 3339 date and time")
            return nil
        }
        if end <= now || end > now + HoldRequest.ttlSeconds.upperBound * 1000 {
            problem("expires_at", "out_of_range", "from now on, at most 30 days ahead; left out: until it is lifted")
        }
        return end
    }
}
