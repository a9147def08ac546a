import Postgres
import PushModel

/// The SQL that erases one user of one app. Every method is one bounded step.
struct ErasureStore {
    /// History rows that one transaction removes.
    static let historyBatch = 5000
    static let notificationBatch: Int64 = 100

    let session: PostgresSession
    let app: App
    let user: String

    init(_ session: PostgresSession, app: App, user: String) {
        self.session = session
        self.app = app
        self.user = user
    }

    struct Page: Sendable {
        var fences: [Fence] = []
        var installations = 0
        var tokens = 0
        /// Nil at the end of the walk.
        var last: PushID?
    }

    /// A time of the user at an installation that is over, whose history and receipts are not removed yet. Two of one installation
    /// may overlap.
    struct Ended: Sendable {
        var installation: PushID
        var epochsFrom: Int64
        var epochsBelow: Int64
        var historyFrom: Int64
        var historyTo: Int64
        /// UNIX milliseconds.
        var beganAt: Int64
        /// UNIX milliseconds.
        var at: Int64
    }

    /// What the history tells of installations that the user may have left.
    struct Left: Sendable {
        var installations: [PushID] = []
        /// The last row that was looked at; nil at the end.
        var last: Int64?
    }

    /// The newest history row; what comes later was written after the call began. A registration of the user that is under way has its
    /// rows' numbers already: it is waited for, or its rows would be removed and what they tell of would stay.
    func historyEnd() throws -> Int64 {
        var lock = RegistryLock(app: app.id)
        lock.add(user: user)
        try lock.take(in: session)
        return try session.execute(Self.historyEnd).only().int64(0)
    }

    /// Makes empty shells of the user's next installations, fences them and notes what is left to remove.
    func endInstallations(after cursor: PushID, limit: Int) throws -> Page {
        var lock = RegistryLock(app: app.id)
        lock.add(user: user)
        try lock.take(in: session)
        let owned = try session.execute(
            InstallationStore.ownedPage, [.int64(app.id), .text(user), .id(cursor), .int64(Int64(limit))]
        ).map { row in try row.id(0) }
        guard let last = owned.last else { return Page() }
        let store = InstallationStore(session: session, app: app)
        let rows = try store.lockInstallations(owned)
        // A registration that names nobody does not take the user's lock: it may have signed the user out since the page was read.
        let theirs = owned.filter { rows[$0]?.owner.hasSameBytes(as: user) == true }
        guard !theirs.isEmpty else { return Page(last: last) }
        var page = try empty(theirs, in: store)
        page.last = last
        return page
    }

    /// Notes the user's earlier times at installations, as far as the next rows of the history tell of them.
    func noteLeft(after cursor: Int64, upTo end: Int64, limit: Int) throws -> Left {
        var left = Left()
        var installations: Set<PushID> = []
        for row in try session.execute(
            Self.noteLeft, [.int64(app.id), .text(user), .int64(cursor), .int64(end), .int64(Int64(limit))])
        {
            left.last = try row.int64(0)
            installations.insert(try row.id(1))
        }
        left.installations = try abandoned(among: installations.sorted())
        return left
    }

    /// Makes empty shells of those that the user was the last to be signed in to, as of those that the user owns.
    func endAbandoned(_ installations: [PushID]) throws -> Page {
        var lock = RegistryLock(app: app.id)
        lock.add(user: user)
        for installation in installations { lock.add(installation: installation) }
        try lock.take(in: session)
        let store = InstallationStore(session: session, app: app)
        _ = try store.lockInstallations(installations)
        let theirs = try abandoned(among: installations)
        return theirs.isEmpty ? Page() : try empty(theirs, in: store)
    }

    private func abandoned(among installations: [PushID]) throws -> [PushID] {
        guard !installations.isEmpty else { return [] }
        return try session.execute(Self.abandoned, [.int64(app.id), .ids(installations), .text(user)]).map { row in try row.id(0) }
    }

    /// The rows are locked.
    private func empty(_ installations: [PushID], in store: InstallationStore) throws -> Page {
        let now = try store.clock()
        let scope: [PostgresValue] = [.int64(app.id), .ids(installations)]
        let tokens = try session.execute(Self.deleteTokens, scope).affected
        try session.execute(Self.clear, scope + [.timestamp(milliseconds: now)])
        let fenced = try store.fence(installations, at: now)
        try session.execute(Self.deleteMoves, scope)
        try session.execute(Self.note, scope + [.text(user), .timestamp(milliseconds: now)])
        return Page(fences: try store.unpublishedFences(of: fenced), installations: installations.count, tokens: tokens)
    }

    func ended(limit: Int) throws -> [Ended] {
        try session.execute(Self.ended, [.int64(app.id), .text(user), .int64(Int64(limit))]).map { row in
            Ended(
                installation: try row.id(0), epochsFrom: try row.int64(1), epochsBelow: try row.int64(2), historyFrom: try row.int64(3),
                historyTo: try row.int64(4), beganAt: try row.timestampMilliseconds(5), at: try row.timestampMilliseconds(6))
        }
    }

    func finish(_ ended: [Ended]) throws {
        try session.execute(
            Self.finish,
            [.int64(app.id), .text(user), .ids(ended.map(\.installation)), .int64Array(ended.map(\.epochsBelow))])
    }

    func notificationsToUser(after cursor: PushID) throws -> [PushID] {
        try session.execute(
            Self.notificationsToUser, [.int64(app.id), .text(user), .id(cursor), .int64(Self.notificationBatch)]
        ).map { row in try row.id(0) }
    }

    /// Those sent to the installations by id, during these times.
    func notifications(to ended: [Ended]) throws -> [PushID] {
        try session.execute(
            Self.notificationsToInstallations,
            [
                .int64(app.id), .ids(ended.map(\.installation)), .int64Array(ended.map(\.epochsFrom)),
                .int64Array(ended.map(\.epochsBelow)), .timestampArray(ended.map(\.beganAt)), .timestampArray(ended.map(\.at)),
                .int64(Self.notificationBatch),
            ]
        ).map { row in try row.id(0) }
    }

    func removeDeliveries(of ended: [Ended]) throws -> Int {
        let found = try session.execute(
            Self.deliveries,
            [
                .int64(app.id), .ids(ended.map(\.installation)), .int64Array(ended.map(\.epochsFrom)),
                .int64Array(ended.map(\.epochsBelow)), .int64(Int64(ReceiptRemoval.batch)),
            ]
        ).map { row in try row.id(0) }
        return try ReceiptRemoval(session: session).remove(found)
    }

    func removeHistory(of ended: [Ended]) throws -> Int {
        try session.execute(
            Self.deleteHistory,
            [
                .int64(app.id), .ids(ended.map(\.installation)), .int64Array(ended.map(\.historyFrom)),
                .int64Array(ended.map(\.historyTo)), .int64(Int64(Self.historyBatch)),
            ]
        ).affected
    }

    /// What other installations' histories say of the user.
    func removeHistory(namingUserUpTo end: Int64) throws -> Int {
        try session.execute(
            Self.deleteHistoryNamingUser, [.int64(app.id), .text(user), .int64(end), .int64(Int64(Self.historyBatch))]
        ).affected
    }

    /// Fences of erased installations that the broker has not confirmed, as far as is written down.
    static func openFences(of app: App, in session: PostgresSession) throws -> [Fence] {
        try session.execute(openFences, [.int64(app.id)]).map { row in
            Fence(
                id: try row.int64(0), app: app.slug, installation: try row.id(1), epochsBelow: try row.int64(2),
                at: try row.timestampMilliseconds(3))
        }
    }
}
