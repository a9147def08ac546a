package import PushModel
package import TokenServiceApps

/// The channels of one app in one environment: what a dispatcher works on there, and what is to be done next. Times are UNIX milliseconds.
package struct ChannelPlan: Equatable, Sendable {
    /// A command whose answer is missing.
    package struct UnderWay: Equatable, Sendable {
        package var id: PushID
        package var operation: ChannelOperation
        /// Nil for a list.
        package var channel: BroadcastChannel.ID?
        /// When the command's answer counts as lost.
        package var endsAt: Int64
    }

    package let app: App.ID
    package let environment: APNsEnvironment
    /// When Apple's channels were last listed; nil: never since the plan had no channel.
    package var listedAt: Int64?
    /// When the channels are listed again; nil: the plan has no channel.
    package var listFrom: Int64?
    package var command: UnderWay?
    /// Ids that the last list found and no row had, while the answer to a create was missing.
    package var candidates: [String]?
    /// When the worker has something to do here; nil: nothing.
    package var dueAt: Int64?

    /// The channels of a plan about which something is to be done.
    struct Waiting: Equatable, Sendable {
        /// The one whose create may have made a channel at Apple.
        var uncertain: BroadcastChannel?
        /// The foreign channels among ``ChannelPlan/candidates``.
        var candidates: [BroadcastChannel] = []
        /// The first one to create.
        var create: BroadcastChannel?
        /// The first one to read or to delete.
        var other: BroadcastChannel?
    }

    enum Step: Equatable, Sendable {
        case list
        case create(BroadcastChannel, ChannelStorage)
        case read(BroadcastChannel, ChannelID)
        case delete(BroadcastChannel, ChannelID)
        /// The create without an answer made this channel; nil: it made none, or the list does not show which.
        case resolve(BroadcastChannel, as: BroadcastChannel?)
        /// Nil: until a request or an answer comes.
        case wait(until: Int64?)
    }

    /// What is to be done next. A plan has one command under way at most, so a list shows what every earlier command has done.
    func next(_ waiting: Waiting, now: Int64) -> Step {
        if let command { return .wait(until: command.endsAt) }
        if let uncertain = waiting.uncertain, let dueAt = uncertain.dueAt, dueAt <= now {
            guard candidates != nil else { return .list }
            for candidate in waiting.candidates where candidate.storage == nil {
                if let id = candidate.appleID { return .read(candidate, id) }
            }
            let matching = waiting.candidates.filter { $0.storage == uncertain.storage }
            return .resolve(uncertain, as: matching.count == 1 ? matching.first : nil)
        }
        // A list before that moment does not show what the create is still doing.
        let listFrom = waiting.uncertain == nil ? self.listFrom : nil
        if let listFrom, listFrom <= now { return .list }
        if let other = waiting.other, let dueAt = other.dueAt, dueAt <= now, let id = other.appleID {
            return other.state == .deleting ? .delete(other, id) : .read(other, id)
        }
        // The list before the first create shows the channels of others.
        let create = waiting.uncertain == nil && listedAt != nil ? waiting.create : nil
        if let create, let dueAt = create.dueAt, dueAt <= now, let storage = create.storage { return .create(create, storage) }
        return .wait(until: [waiting.uncertain?.dueAt, listFrom, waiting.other?.dueAt, create?.dueAt].compactMap(\.self).min())
    }
}
