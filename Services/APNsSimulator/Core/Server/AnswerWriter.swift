import HTTP2

/// Makes answers' headers in blocks that are prepared once per connection: an accepted push costs no allocation here.
struct AnswerWriter {
    private let hasUniqueID: Bool
    private var accepted = HeaderBlock()
    private var rejected = HeaderBlock()
    private var id = [UInt8](repeating: 0, count: 36)
    private var uniqueID = [UInt8](repeating: 0, count: 36)

    private static let status = 0
    private static let apnsID = 1
    private static let apnsUniqueID = 2

    /// - Parameter hasUniqueID: The sandbox's answers bear `apns-unique-id` (Apple: Handling notification responses from APNs).
    init(hasUniqueID: Bool) {
        self.hasUniqueID = hasUniqueID
        accepted.append(":status", "200")
        rejected.append(":status", "400")
        let blank = String(repeating: "0", count: 36)
        accepted.append("apns-id", blank, indexing: .withoutIndexing)
        rejected.append("apns-id", blank, indexing: .withoutIndexing)
        if hasUniqueID {
            accepted.append("apns-unique-id", blank, indexing: .withoutIndexing)
            rejected.append("apns-unique-id", blank, indexing: .withoutIndexing)
        }
        rejected.append("content-type", "application/json")
    }

    /// Hands the answer to the session.
    /// - Returns: false if the stream is gone.
    mutating func write(
        _ answer: Answer, to pending: PendingStep, unique: MessageID, on http2: HTTP2ServerSession
    ) throws(HTTP2Error) -> Bool {
        pending.id.write(into: &id)
        if hasUniqueID { unique.lowercased.write(into: &uniqueID) }
        if answer.status == 200, answer.reason == nil {
            accepted.setValue(id, at: Self.apnsID)
            if hasUniqueID { accepted.setValue(uniqueID, at: Self.apnsUniqueID) }
            return try http2.respond(pending.stream, headers: accepted)
        } else {
            rejected.setValue(String(answer.status), at: Self.status)
            rejected.setValue(id, at: Self.apnsID)
            if hasUniqueID { rejected.setValue(uniqueID, at: Self.apnsUniqueID) }
            return try http2.respond(pending.stream, headers: rejected, body: answer.body ?? [], frameLimit: answer.frameBytes ?? .max)
        }
    }
}
