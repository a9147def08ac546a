import APNs
import PushModel

extension ChannelAnswer {
    /// The reasons that are this program's own. The others are ``NotSentReason`` and ``UnknownReason``.
    enum OwnReason {
        /// The broker delivered a `create` for the second time.
        static let redelivered = "redelivered"
        /// APNs did it, and the answer lacks what the operation is for.
        static let incompleteAnswer = "incomplete_answer"
    }

    /// What became of a command that got no answer of APNs.
    init(_ command: ChannelCommand, _ result: Result, because reason: String? = nil, source: String, now: Int64) {
        self.init(
            id: .timeOrdered(milliseconds: now), source: source, time: now, command: command.id, app: command.app,
            environment: command.environment, operation: command.request.operation, result: result, reason: reason)
        if case .read(let channel) = command.request { channelID = channel.text }
        if case .delete(let channel) = command.request { channelID = channel.text }
    }

    /// - Parameter content: nil if the status is all that came.
    init(
        _ command: ChannelCommand, status: Int, reason: String?, _ content: APNsChannelContent?, source: String, now: Int64
    ) {
        self.init(command, .refused, because: reason, source: source, now: now)
        self.status = status
        guard (200..<300).contains(status) else { return }
        result = .done
        var isComplete = true
        switch command.request {
        case .create(let storage):
            self.storage = storage
            channelID = content?.channelID.flatMap { ChannelID($0) }?.text
            isComplete = channelID != nil
        case .read:
            storage = content?.storage
            isComplete = storage != nil
        case .delete: break
        case .list:
            // Apple writes base64. No command could name another text.
            channels = content?.channels?.filter { ChannelID($0) != nil }
            isComplete = channels != nil
        }
        if !isComplete { (result, self.reason) = (.unanswered, OwnReason.incompleteAnswer) }
    }
}
