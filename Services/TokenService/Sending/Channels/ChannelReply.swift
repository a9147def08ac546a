import PushModel

/// What a dispatcher's answer says about a command.
enum ChannelReply: Equatable {
    case created(ChannelID)
    case described(ChannelStorage)
    case deleted
    case listed([ChannelID])
    case refused(ChannelRefusal)
    /// Apple may have carried it out, or not.
    case unclear(String)

    /// No answer came in time.
    static let lost = ChannelReply.unclear("unanswered")

    init(_ answer: ChannelAnswer) {
        let reason = answer.reason.flatMap(OutsideText.harmless)
        switch answer.result {
        case .done:
            let reply: ChannelReply? =
                switch answer.operation {
                case .create: answer.channelID.flatMap { ChannelID($0) }.map { .created($0) }
                case .read: answer.storage.map { .described($0) }
                case .delete: .deleted
                case .list: answer.channels.map { .listed($0.compactMap { ChannelID($0) }) }
                }
            self = reply ?? .unclear("unreadable_answer")
        case .refused: self = .refused(ChannelRefusal(status: answer.status ?? 500, reason: reason ?? "HTTP \(answer.status ?? 500)"))
        // Another dispatcher may have begun the command before.
        case .unanswered, .expired, .noCredential: self = .unclear(reason ?? answer.result.rawValue)
        }
    }
}
