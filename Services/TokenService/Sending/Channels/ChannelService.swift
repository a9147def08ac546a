package import Postgres
package import PushModel
import TokenServiceApps
package import TokenServiceKit

/// The channels of every app, for requests and for the dispatchers' answers. It writes rows and wakes the ``ChannelWorker``, which asks
/// Apple.
package struct ChannelService: Sendable {
    /// How long a request waits for Apple's answer.
    private static let patience: Duration = .seconds(5)
    /// Any process may apply the answer, so a request looks at the row: often at first, then less so.
    private static let pauses: ClosedRange<Duration> = .milliseconds(50) ... .milliseconds(400)

    package let pool: PostgresPool
    package let settings: ChannelSettings
    /// Wakes the worker.
    package let wakeUp: WorkSignal

    package init(pool: PostgresPool, settings: ChannelSettings, wakeUp: WorkSignal) {
        self.pool = pool
        self.settings = settings
        self.wakeUp = wakeUp
    }

    /// Idempotent.
    /// - Throws: `PostgresError`.
    package func apply(_ answer: ChannelAnswer) async throws {
        try await pool.transaction { [settings] session in
            let app: App.ID? = try session.execute("SELECT id FROM apps WHERE slug = \(answer.app)").first.map { try $0["id"] }
            guard let app, let (store, plan) = try ChannelStore.lock(app, answer.environment, in: session) else { return }
            var progress = ChannelProgress(store: store, plan: plan, settings: settings, now: try ChannelStore.now(in: session))
            try progress.apply(answer)
            try store.save(progress.plan)
        }
        wakeUp.signal()
    }

    // MARK: Requests

    /// Idempotent. Waits a while for Apple's answer.
    /// - Returns: the channel as it is then, and whether this call has begun it.
    /// - Throws: ``APIError``, `PostgresError`; then nothing was changed, except that Apple's refusal is recorded.
    func open(_ name: String, _ request: ChannelRequest, of app: App) async throws -> (channel: BroadcastChannel, isNew: Bool) {
        let (first, isNew) = try await pool.transaction { session in
            let (store, plan) = try ChannelStore.lockOrMake(app.id, request.environment, in: session)
            let known = try ChannelReading(session: session, app: app).channel(name)
            let begun = try store.begin(name, request, known, now: ChannelStore.now(in: session))
            if begun.isNew { try store.wake(plan) }
            return begun
        }
        if isNew { wakeUp.signal() }
        guard first.state == .creating else { return (first, isNew) }
        let channel = try await awaited(first, of: app) { $0?.state != .creating }
        guard let channel else { throw APIError.notFound }
        switch channel.state {
        case .failed: throw APIError.channelRefused(channel.reason)
        case .deleting: throw APIError.channelDeleting
        case .creating, .open, .foreign, .lost: return (channel, isNew)
        }
    }

    /// Idempotent. Waits a while for Apple's answer.
    /// - Parameter force: Although Live Activities follow it.
    /// - Returns: the channel if it still exists then.
    /// - Throws: ``APIError``, `PostgresError`; then nothing was changed.
    func remove(_ name: String, of app: App, force: Bool) async throws -> BroadcastChannel? {
        try await remove(of: app) { session in
            let environment = try ChannelReading(session: session, app: app).channel(name)?.environment
            guard let environment, let (store, plan) = try ChannelStore.lock(app.id, environment, in: session),
                let channel = try store.lock(name)
            else { return nil }
            if !force, channel.state != .deleting {
                // Activities that begin to follow it wait meanwhile, with the registrations that share their transactions.
                let isFollowed = try store.followers(of: channel, upTo: 1) > 0
                if try isFollowed || store.isBroadcasting(channel) { throw APIError.channelInUse(isFollowed: isFollowed) }
            }
            return (store, plan, channel)
        }
    }

    /// Removes a foreign channel.
    /// - Throws: ``APIError`` 404 where there is none, or a backend has named it.
    func removeForeign(_ id: ChannelID, in environment: APNsEnvironment, of app: App) async throws -> BroadcastChannel? {
        try await remove(of: app) { session in
            guard let (store, plan) = try ChannelStore.lock(app.id, environment, in: session),
                let channel = try store.find(appleID: id), channel.name == nil
            else { throw APIError.notFound }
            return (store, plan, channel)
        }
    }

    private func remove(
        of app: App, _ find: @escaping @Sendable (PostgresSession) throws -> (ChannelStore, ChannelPlan, BroadcastChannel)?
    ) async throws -> BroadcastChannel? {
        let first = try await pool.transaction { session -> BroadcastChannel? in
            guard let (store, plan, channel) = try find(session) else { return nil }
            let changed = try store.apply(.unwanted, to: channel, now: ChannelStore.now(in: session))
            try store.wake(plan)
            return changed
        }
        guard let first else { return nil }
        wakeUp.signal()
        return try await awaited(first, of: app) { $0 == nil }
    }

    /// The channel as it is when `isReached` says so, or after a while.
    private func awaited(_ channel: BroadcastChannel, of app: App, _ isReached: (BroadcastChannel?) -> Bool) async throws
        -> BroadcastChannel?
    {
        let end = ContinuousClock.now + Self.patience
        var latest: BroadcastChannel? = channel
        var pause = Self.pauses.lowerBound
        repeat {
            guard await Pause.of(pause) else { throw CancellationError() }
            pause = min(pause * 2, Self.pauses.upperBound)
            latest = try await pool.session { session in
                try ChannelStore(session: session, app: app.id, environment: channel.environment).find(channel.id)
            }
        } while !isReached(latest) && ContinuousClock.now < end
        return latest
    }
}

extension ChannelStore {
    /// - Parameter known: The app's channel of the name, in any environment.
    /// - Returns: the channel, and whether Apple is to be asked for it now.
    /// - Throws: ``APIError`` 409.
    fileprivate func begin(
        _ name: String, _ request: ChannelRequest, _ known: BroadcastChannel?, now: Int64
    ) throws -> (channel: BroadcastChannel, isNew: Bool) {
        if let channel = known {
            if channel.state == .failed { return try begin(name, request, apply(.unwanted, to: channel, now: now), now: now) }
            guard channel.isSame(as: request) else { throw APIError.channelDiffers }
            switch channel.state {
            case .deleting: throw APIError.channelDeleting
            case .lost: throw APIError.channelLost
            default: return (channel, false)
            }
        }
        switch request.origin {
        case .new(let storage):
            guard try count() < Self.maximumInScope else { throw APIError.channelLimit }
            return (try insert(BroadcastChannel(.creating, in: environment, name: name, storage: storage, now: now)), true)
        case .existing(let id):
            guard let channel = try find(appleID: id) else {
                return (try insert(BroadcastChannel(.creating, in: environment, name: name, appleID: id, now: now)), true)
            }
            guard channel.state == .foreign else { throw APIError.channelDiffers }
            return (try apply(.adopted(name), to: channel, now: now) ?? channel, true)
        }
    }

    /// The worker looks at the plan now.
    fileprivate func wake(_ plan: ChannelPlan) throws {
        var plan = plan
        let now = try Self.now(in: session)
        plan.listFrom = plan.listFrom ?? now
        plan.dueAt = now
        try save(plan)
    }

    /// Waits for broadcasts that are accepted, and for activities that begin to follow it, and keeps others from it.
    fileprivate func lock(_ name: String) throws -> BroadcastChannel? {
        try session.execute(
            "SELECT * FROM channels WHERE app_id = \(app) AND environment = \(environment) AND name = \(name) FOR UPDATE",
            under: RowLock(
                "SELECT FROM update_targets WHERE app_id = \(app) AND owned_by = 'channel' AND id = \(name) FOR NO KEY UPDATE")
        ).first.map { try BroadcastChannel($0) }
    }
}

extension BroadcastChannel {
    fileprivate func isSame(as request: ChannelRequest) -> Bool {
        guard environment == request.environment else { return false }
        return switch request.origin {
        case .new(let storage): self.storage == nil && appleID == nil || self.storage == storage
        case .existing(let id): appleID == id
        }
    }
}

extension APIError {
    static let channelDiffers = APIError(
        .channelDiffers, "the name has a channel of another environment, storage or id, or the id has another name; nothing was changed")

    static func channelInUse(isFollowed: Bool) -> APIError {
        APIError(
            .channelInUse,
            "\(isFollowed ? "Live Activities follow it" : "a broadcast is on its way"); "
                + "force=true deletes it all the same. Nothing was changed")
    }

    static let channelDeleting = APIError(.channelDeleting, "Apple has not deleted the channel of this name yet")

    static let channelLost = APIError(.channelLost, "Apple does not have it any more; delete it, then create it again")

    static func channelNotOpen(_ state: BroadcastChannel.State) -> APIError {
        APIError(.channelNotOpen, "it is \(state.rawValue): no push can reach it. Nothing was sent")
    }

    static let channelLimit = APIError(
        .channelLimit, "an app may have \(ChannelStore.maximumInScope) channels in an environment; delete some first")

    /// - Parameter reason: Apple's own.
    static func channelRefused(_ reason: String?) -> APIError {
        guard reason != ChannelRefusal.limitReached else { return channelLimit }
        return APIError(.channelRefused, "Apple's reason: \(reason ?? "none")")
    }
}
