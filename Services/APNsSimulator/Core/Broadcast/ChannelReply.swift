import HTTP2

/// The parts of an answer about channels beside status and reason. A class, so that the steps of pushes, which have none, stay small.
final class ChannelReply {
    /// Of a channel just made.
    private let channelID: String?
    /// nil: the body that the answer makes from its reason.
    private let body: [UInt8]?

    init(channelID: String? = nil, body: [UInt8]? = nil) {
        self.channelID = channelID
        self.body = body
    }

    /// Hands the answer to the session.
    /// - Returns: false if the stream is gone.
    func write(_ pending: PendingStep, on http2: HTTP2ServerSession) throws(HTTP2Error) -> Bool {
        let answer = pending.step.answer
        let content = body ?? answer.body ?? []
        var block = HeaderBlock()
        block.append(":status", String(answer.status))
        block.append("apns-request-id", pending.id.text)
        if let channelID { block.append("apns-channel-id", channelID) }
        if !content.isEmpty { block.append("content-type", "application/json") }
        return try http2.respond(pending.stream, headers: block, body: content, frameLimit: answer.frameBytes ?? .max)
    }
}
