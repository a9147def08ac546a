package import Broker
package import Logging
import Postgres
import PushModel
import ServiceLifecycle
import TokenServiceApps
import TokenServiceKit

/// Brings Apple's channels and the registry together: publishes the commands that are due, one of a plan at a time, and gives up those
/// whose answer is overdue. Every process runs it; the one with the lease works.
package final class ChannelWorker: Service {
    /// How often it looks for work of other processes.
    private static let interval: Duration = .milliseconds(200)
    /// How long a process without the lease waits before it tries to take it.
    private static let leaselessPause: Duration = .seconds(5)
    private static let failurePause: Duration = .seconds(1)
    private static let publishPatience: Duration = .seconds(5)
    private static let batch = 100

    private let service: ChannelService
    private let publisher: Publisher
    private let topology: Topology
    private let logger: Logger
    private let lease = Lease("channels", seconds: 30)

    package init(service: ChannelService, publisher: Publisher, topology: Topology, logger: Logger) {
        self.service = service
        self.publisher = publisher
        self.topology = topology
        self.logger = logger
    }

    package func run() async throws {
        await withGracefulShutdownHandler {
            await withDiscardingTaskGroup { group in
                group.addTask { while await Pause.of(Self.interval) { self.service.wakeUp.signal() } }
                var turn = Turn()
                for await _ in service.wakeUp.signals where ContinuousClock.now >= turn.next { await round(&turn) }
                group.cancelAll()
                if turn.taken != nil { await lease.release(in: service.pool, logger: logger) }
            }
        } onGracefulShutdown: {
            self.service.wakeUp.end()
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
                turn.taken = try await service.pool.session { [lease] session in try lease.take(in: session) } ? .now : nil
            }
            guard turn.taken != nil else {
                turn.next = .now + Self.leaselessPause
                return
            }
            let plans = try await service.pool.session { session in
                try DuePlan.all(in: session, limit: Self.batch)
            }
            if try await !work(on: plans) { turn.next = .now + Self.failurePause }
            if plans.count == Self.batch { service.wakeUp.signal() }
        } catch {
            if !(error is LeaseLost) { logger.failed("The commands for channels could not be made", error) }
            turn = Turn(taken: nil, next: .now + Self.failurePause)
        }
    }

    /// Publishes what was recorded in any case. A plan that fails keeps no other one from its command.
    /// - Throws: ``LeaseLost``.
    /// - Returns: whether none failed.
    private func work(on plans: [DuePlan]) async throws -> Bool {
        var commands: [ChannelCommand] = []
        var (lost, isSound): (LeaseLost?, Bool) = (nil, true)
        for plan in plans where lost == nil {
            do {
                if let command = try await command(for: plan) { commands.append(command) }
            } catch let error as LeaseLost {
                lost = error
            } catch {
                isSound = false
                logger.failed(
                    "A command for a channel could not be made", error,
                    [LogKey.app: "\(plan.slug)", LogKey.environment: "\(plan.environment.rawValue)"])
            }
        }
        await publish(commands)
        if let lost { throw lost }
        return isSound
    }

    /// Records the next command of a plan. It is published after the commit: if the process dies in between, the command runs out of time.
    private func command(for due: DuePlan) async throws -> ChannelCommand? {
        try await service.pool.transaction { [lease, settings = service.settings] session in
            try lease.renew(in: session)
            guard let (store, plan) = try ChannelStore.lock(due.app, due.environment, in: session) else { return nil }
            var progress = ChannelProgress(store: store, plan: plan, settings: settings, now: try ChannelStore.now(in: session))
            // A dispatcher compares the expiry with its own clock, as that of a job.
            let now = UnixTime.milliseconds()
            let id = PushID.timeOrdered(milliseconds: now)
            try progress.timeOut()
            let request = try progress.next(id)
            try store.save(progress.plan)
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

/// A plan that the worker has to look at.
private struct DuePlan: Sendable {
    let app: App.ID
    let slug: AppSlug
    let bundleID: String
    let environment: APNsEnvironment

    static func all(in session: PostgresSession, limit: Int) throws -> [DuePlan] {
        try session.execute(
            """
            SELECT s.app_id, a.slug, a.bundle_id, s.environment FROM channel_scopes s JOIN apps a ON a.id = s.app_id
            WHERE s.due_at <= clock_timestamp() ORDER BY s.due_at LIMIT \(limit)
            """
        ).map { row in
            DuePlan(app: try row["app_id"], slug: try row["slug"], bundleID: try row["bundle_id"], environment: try row["environment"])
        }
    }
}
