package import Postgres
package import PushModel
import TokenServiceKit

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
    /// When the next command about it may go; nil: none is to go.
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

/// Apple's answer to a request that it did not carry out.
package struct ChannelRefusal: Equatable, Sendable {
    package var status: Int
    package var reason: String

    /// The reason that Apple gives when an app has as many channels as it may have.
    static let limitReached = "CannotCreateChannelConfig"

    /// The reason that Apple gives when it knows no such channel.
    package static let notRegistered = "ChannelNotRegistered"

    var isAbsence: Bool { reason == Self.notRegistered }
    /// Whether the same request may succeed later.
    var isTemporary: Bool { status == 429 || status >= 500 }
    /// Apple may have carried it out all the same.
    var isUncertain: Bool { status >= 500 }
}

extension BroadcastChannel {
    /// Everything that can change a channel.
    package enum Event: Equatable, Sendable {
        /// A backend takes a foreign channel over, under this name.
        case adopted(String)
        /// A backend does not want it any more.
        case unwanted
        /// The command that creates it is about to be published.
        case asked(PushID)
        /// Apple has created it.
        case created(ChannelID)
        /// No channel at Apple comes from the create whose answer is missing.
        case notCreated
        /// Apple says how it stores broadcasts.
        case described(ChannelStorage)
        /// Apple knows no such channel, or has deleted it.
        case absent
        case refused(ChannelRefusal, retryAt: Int64)
        /// There was no answer, or none that says anything about the channel.
        case delayed(String, until: Int64)
        /// Whether Apple's list shows it.
        case listed(Bool)
    }

    /// The state machine. Every change of a channel is an event of it.
    /// - Returns: whether the row stays.
    package mutating func apply(_ event: Event, now: Int64) -> Bool {
        switch (state, event) {
        case (.foreign, .adopted(let name)):
            self.name = name
            become(.creating, now: now)
        case (.creating, .asked(let command)): creation = command
        case (.creating, .created(let id)):
            appleID = id
            become(.open, now: now)
        case (.creating, .described(let storage)):
            self.storage = storage
            become(.open, now: now)
        case (.creating, .absent): fail(ChannelRefusal.notRegistered, now: now)
        case (.creating, .refused(let refusal, let retryAt)):
            guard refusal.isTemporary else {
                fail(refusal.reason, now: now)
                break
            }
            if !refusal.isUncertain { creation = nil }
            wait(refusal.reason, until: retryAt)
        case (.creating, .unwanted):
            // A list, or a late answer, shows whether Apple has a channel for it.
            guard creation != nil || appleID != nil else { return false }
            become(.deleting, now: now, keepsCreation: true)
        case (.creating, .notCreated):
            creation = nil
            dueAt = now
        case (.deleting, .created(let id)):
            appleID = id
            creation = nil
            dueAt = now
        case (.deleting, .absent), (.deleting, .notCreated): return false
        case (.deleting, .refused(let refusal, let retryAt)):
            guard appleID != nil || refusal.isUncertain else { return false }
            wait(refusal.reason, until: retryAt)
        case (.creating, .delayed(let reason, let until)), (.deleting, .delayed(let reason, let until)): wait(reason, until: until)
        case (.open, .unwanted), (.lost, .unwanted), (.foreign, .unwanted): become(.deleting, now: now)
        case (.open, .absent), (.open, .listed(false)): become(.lost, now: now)
        case (.lost, .listed(true)): become(.open, now: now)
        case (.failed, .unwanted), (.foreign, .absent), (.foreign, .listed(false)): return false
        case (.foreign, .described(let storage)): self.storage = storage
        // An event that is late, or that changes nothing.
        default: break
        }
        return true
    }

    private mutating func become(_ state: State, now: Int64, keepsCreation: Bool = false) {
        self.state = state
        changedAt = now
        reason = nil
        dueAt = state == .creating || state == .deleting ? now : nil
        if !keepsCreation { creation = nil }
    }

    private mutating func fail(_ reason: String, now: Int64) {
        become(.failed, now: now)
        appleID = nil
        self.reason = reason
    }

    private mutating func wait(_ reason: String, until moment: Int64) {
        self.reason = reason
        dueAt = moment
    }
}

/// A channel as the API shows it.
struct ShownChannel: Sendable {
    let channel: BroadcastChannel
    /// Live Activities that follow it, at most ``maximumFollowers``; nil in lists.
    var followers: Int?

    static let maximumFollowers = 10_000

    static let page = PageResponse.schema("Channels", "channels", of: response)
    static let response = ResponseSchema<ShownChannel>.object(
        "Channel",
        [
            .nullable("name", .text(.string(Purpose.maximumNameBytes).example("game-17")), "Null: no backend has named it.") {
                $0.channel.name
            },
            .required("environment", .word) { $0.channel.environment },
            .nullable("storage", .word, "Null until Apple has said it.") { $0.channel.storage },
            .nullable("channel_id", .text(.channelID), "Apple's id, which the app subscribes to. Null until Apple has answered.") {
                $0.channel.appleID?.text
            },
            .required(
                "state", .word,
                """
                `creating`: Apple has not answered yet; `open`: it exists at Apple; `deleting`: Apple is still to delete it; `failed`: \
                Apple refused to create it; `foreign`: it exists at Apple, and another program made it; `lost`: it was open, and Apple \
                does not have it any more.
                """
            ) { $0.channel.state },
            .optional("reason", .text(.string().example("FeatureNotEnabled")), "Why Apple refused it, or why it waits.") {
                $0.channel.reason
            },
            .required("created_at", .time) { $0.channel.createdAt },
            .required("changed_at", .time, "When its state changed last.") { $0.channel.changedAt },
            .optional("followers", .count, "Live Activities that follow it, counted to 10,000. Absent in lists.") { $0.followers },
        ])
}

extension ChannelID: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .text }
    package var postgresValue: PostgresValue { .text(text) }

    package init(_ column: PostgresColumn) throws(PostgresError) {
        guard let id = ChannelID(try String(column)) else { throw column.failure("holds a text that is no channel's id") }
        self = id
    }
}

extension ChannelStorage: PostgresEncodable, PostgresDecodable {}
extension ChannelOperation: PostgresEncodable, PostgresDecodable {}
extension BroadcastChannel.State: PostgresEncodable, PostgresDecodable {}

extension BroadcastChannel {
    /// - Parameter row: A row of `channels`.
    init(_ row: PostgresRow) throws {
        self.init(
            id: try row["id"], environment: try row["environment"], name: try row["name"], appleID: try row["apple_id"],
            storage: try row["storage"], state: try row["state"], creation: try row["creation"], reason: try row["reason"],
            dueAt: try row.milliseconds("due_at"), createdAt: try row.milliseconds("created_at"),
            changedAt: try row.milliseconds("changed_at"))
    }
}

extension ChannelPlan {
    /// - Parameter row: A row of `channel_scopes`.
    init(_ row: PostgresRow) throws {
        let (command, operation): (PushID?, ChannelOperation?) = (try row["command"], try row["operation"])
        var underWay: UnderWay?
        if let command, let operation {
            underWay = UnderWay(
                id: command, operation: operation, channel: try row["command_channel"], endsAt: try row.milliseconds("command_ends_at"))
        }
        self.init(
            app: try row["app_id"], environment: try row["environment"], listedAt: try row.milliseconds("listed_at"),
            listFrom: try row.milliseconds("list_from"), command: underWay, candidates: try row["candidates"],
            dueAt: try row.milliseconds("due_at"))
    }
}
