package import PushModel

/// A broadcast channel of an app: a row of `channels`. Times are UNIX milliseconds.
package struct BroadcastChannel: Equatable, Sendable {
    package typealias ID = Int64

    package enum State: String, CaseIterable, Sendable {
        /// A backend wants it, and Apple has not answered yet.
        case creating
        /// It exists at Apple.
        case open
        /// It is not wanted any more, and may exist at Apple.
        case deleting
        /// Apple refused to create it, or does not know the channel that was to be adopted.
        case failed
        /// It exists at Apple, and this platform did not create it.
        case foreign
        /// It was open, and Apple does not have it any more.
        case lost
    }

    package var id: ID
    package let environment: APNsEnvironment
    /// The backend's own name, unique in the app. Nil: a foreign one, or one without a use that is being deleted.
    package var name: String?
    /// Nil until Apple has answered.
    package var appleID: ChannelID?
    /// Nil until Apple has said it.
    package var storage: ChannelStorage?
    package var state: State
    /// The command that may have made a channel at Apple, as long as its answer is missing.
    package var creation: PushID?
    /// Why Apple refused it, or why it waits.
    package var reason: String?
    /// From when on the next command about it may go; nil: none is to go.
    package var dueAt: Int64?
    package var createdAt: Int64
    /// When its state changed last.
    package var changedAt: Int64

    /// A channel without an id of the database yet.
    init(
        _ state: State, in environment: APNsEnvironment, name: String? = nil, appleID: ChannelID? = nil, storage: ChannelStorage? = nil,
        now: Int64
    ) {
        id = 0
        self.environment = environment
        self.name = name
        self.appleID = appleID
        self.storage = storage
        self.state = state
        dueAt = state == .creating || state == .deleting ? now : nil
        (createdAt, changedAt) = (now, now)
    }

    /// All columns of a row.
    init(
        id: ID, environment: APNsEnvironment, name: String?, appleID: ChannelID?, storage: ChannelStorage?, state: State,
        creation: PushID?, reason: String?, dueAt: Int64?, createdAt: Int64, changedAt: Int64
    ) {
        self.id = id
        self.environment = environment
        self.name = name
        self.appleID = appleID
        self.storage = storage
        self.state = state
        self.creation = creation
        self.reason = reason
        self.dueAt = dueAt
        self.createdAt = createdAt
        self.changedAt = changedAt
    }
}
