package import Broker
package import Logging
import Postgres
import PushModel
import ServiceLifecycle
import TokenServiceApps
import TokenServiceKit

/// Brings Apple's channels and the registry together: publishes the commands that are due, one of a scope at a time, and gives up those
/// whose answer is overdue. Every process runs it; the one with the lease works.
package final class ChannelWorker: Service {
    /// How often it looks for work of other processes.
    private static let interval: Duration = .milliseconds(200)
    /// How long a process without the lease waits before it tries to take it.
    private static let leaselessPause: Duration = .seconds(5)
    private static let failurePause: Duration = .seconds(1)
    private static let publishPatience: Duration = .seconds(5)
    private static let batch = 100

    private let registry: ChannelRegistry
    private let publisher: Publisher
    private let topology: Topology
    private let logger: Logger
    private let lease = Lease("channels", seconds: 30)

    package init(registry: ChannelRegistry, publisher: Publisher, topology: Topology, logger: Logger) {
        self.registry = registry
        self.publisher = publisher
        self.topology = topology
        self.logger = logger
    }

    package func run() async throws {
        await withGracefulShutdownHandler {
            await withDiscardingTaskGroup { group in
                group.addTask { while await Pause.of(Self.interval) { self.registry.wakeUp.signal() } }
                var turn = Turn()
                for await _ in registry.wakeUp.signals where ContinuousClock.now >= turn.next { await round(&turn) }
                group.cancelAll()
                if turn.taken != nil { await lease.release(in: registry.pool, logger: logger) }
            }
        } onGracefulShutdown: {
            self.registry.wakeUp.end()
        }
    }

    private struct Turn {
        /// When this process took or renewed the lease; nil without it.
        var taken: ContinuousClock.Instant?
        /// When another round begins.
        var next = ContinuousClock.now
    }

    private func round(_ turn: inout Turn) async {
        do {
            if turn.taken.map({ ContinuousClock.now - $0 > .seconds(lease.seconds) / 3 }) ?? true {
                turn.taken = try await registry.pool.session { [lease] session in try lease.take(in: session) } ? .now : nil
            }
            guard turn.taken != nil else {
                turn.next = .now + Self.leaselessPause
                return
            }
            let scopes = try await registry.pool.session { session in
                try DueScope.all(in: session, limit: Self.batch)
            }
            if try await !work(on: scopes) { turn.next = .now + Self.failurePause }
            if scopes.count == Self.batch { registry.wakeUp.signal() }
        } catch {
            if !(error is LeaseLost) { logger.failed("The commands for channels could not be made", error) }
            turn = Turn(taken: nil, next: .now + Self.failurePause)
        }
    }

    /// Publishes what was recorded in any case. A scope that fails keeps no other one from its command.
    /// - Throws: ``LeaseLost``.
    /// - Returns: whether none failed.
    private func work(on scopes: [DueScope]) async throws -> Bool {
        var commands: [ChannelCommand] = []
        var (lost, isSound): (LeaseLost?, Bool) = (nil, true)
        for scope in scopes where lost == nil {
            do {
                if let command = try await command(for: scope) { commands.append(command) }
            } catch let error as LeaseLost {
                lost = error
            } catch {
                isSound = false
                logger.failed(
                    "A command for a channel could not be made", error,
                    [LogKey.app: "\(scope.slug)", LogKey.environment: "\(scope.environment.rawValue)"])
            }
        }
        await publish(commands)
        if let lost { throw lost }
        return isSound
    }

    /// Records the next command of a scope. It is published after the commit: if the process dies in between, the command runs out of time.
    private func command(for due: DueScope) async throws -> ChannelCommand? {
        try await registry.pool.transaction { [lease, settings = registry.settings] session in
            try lease.renew(in: session)
            guard let (store, scope) = try ChannelStore.lock(due.app, due.environment, in: session) else { return nil }
            var progress = ChannelProgress(store: store, scope: scope, settings: settings, now: try ChannelStore.now(in: session))
            // A dispatcher compares the expiry with its own clock, as that of a job.
            let now = UnixTime.milliseconds()
            let id = PushID.timeOrdered(milliseconds: now)
            try progress.timeOut()
            let request = try progress.next(id)
            try store.save(progress.scope)
            return request.map { request in
                ChannelCommand(
                    id: id, app: due.slug, environment: due.environment, bundleID: due.bundleID, request: request,
                    expiresAt: now + settings.commandTimeout.milliseconds)
            }
        }
    }

    /// A command that the broker does not take runs out of time.
    private func publish(_ commands: [ChannelCommand]) async {
        let messages = commands.map { command in
            OutgoingMessage(
                exchange: "", routingKey: topology.commandsQueue, messageID: command.id, contentType: ChannelCommand.contentType,
                body: command.encoded())
        }
        let unconfirmed = await publisher.publish(messages, deadline: Self.publishPatience).count { !$0.isConfirmed }
        guard unconfirmed > 0 else { return }
        logger.warning("The broker has not confirmed commands for channels", metadata: [LogKey.count: "\(unconfirmed)"])
    }
}

/// A scope that the worker has to look at.
private struct DueScope: Sendable {
    let app: App.ID
    let slug: AppSlug
    let bundleID: String
    let environment: APNsEnvironment

    static func all(in session: PostgresSession, limit: Int) throws -> [DueScope] {
        try session.execute(
            """
            SELECT s.app_id, a.slug, a.bundle_id, s.environment FROM channel_scopes s JOIN apps a ON a.id = s.app_id
            WHERE s.due_at <= clock_timestamp() ORDER BY s.due_at LIMIT \(limit)
            """
        ).map { row in
            DueScope(app: try row["app_id"], slug: try row["slug"], bundleID: try row["bundle_id"], environment: try row["environment"])
        }
    }
}
