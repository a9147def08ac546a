package import Logging
import Metrics
package import RabbitMQ
import ServiceLifecycle
import Synchronization
package import SystemIO

/// Publishes messages so that each gets one outcome, also if the connection is lost.
///
/// One thread owns one connection, with a channel for each destination. At most `window` messages or 1 MiB of a channel are unconfirmed at
/// once. If the connection is lost, unconfirmed messages are published again, with the same message id, over the next one. So a message may
/// be stored twice, and is never forgotten while this process lives, unless an outage is longer than its limit. Reconnects with full jitter
/// between 0.1 and 2 s. A watchdog cuts a call that hangs in the library after 10 s.
///
/// A queue that does not answer delays its own messages only: see ``PublisherLoop``.
package final class Publisher: Service, Sendable {
    private let core: PublisherCore
    private let thread: ServiceThread

    /// - Parameters:
    ///   - name: the thread's name, in logs and as metric dimension; at most nine bytes show in `top`.
    ///   - window: unconfirmed messages of a channel at most. Below 200: so many RabbitMQ takes for a channel that stands still before it
    ///     reads nothing more of the whole connection (`credit_flow_default_credit`).
    ///   - maximumPending: messages that are taken from callers and have no outcome yet; further ones are `.full`. Their bodies may hold 64
    ///     MiB together.
    ///   - drainTimeout: how long ``run()`` waits for confirms once a graceful shutdown has begun.
    ///   - watchdogLimit: how long one round of the thread may take before its connection is cut.
    ///   - confirmLimit: how long a confirmation may take before the channel is given up, or the connection if nothing else is answered.
    ///     RabbitMQ can lose one when a queue or a stream gets another leader.
    ///   - outageLimit: how long messages wait while there is no connection, or each one breaks before the broker takes a message; then
    ///     they are `.disconnected`. nil: without an end. For senders whose messages another process can publish.
    ///   - isOrdered: everything goes to one stream, which confirms in the order of publishing. A confirmation that passes over an earlier
    ///     message is ignored, and the connection is given up (``BrokerQuirks``).
    /// - Throws: when the process has no file descriptor left.
    package init(
        name: String = "publisher", configuration: RabbitMQConfiguration, topology: Topology, window: Int = 128,
        maximumPending: Int = 10_000,
        drainTimeout: Duration = .seconds(10), watchdogLimit: Duration = .seconds(10), confirmLimit: Duration = .seconds(10),
        outageLimit: Duration? = nil, isOrdered: Bool = false, logger: Logger
    ) throws(SystemError) {
        let core = try PublisherCore(
            settings: PublisherSettings(
                link: BrokerLink.Settings(name: name, configuration: configuration, topology: topology, watchdogLimit: watchdogLimit),
                window: window, maximumPending: maximumPending, confirmLimit: confirmLimit, outageLimit: outageLimit,
                isOrdered: isOrdered), logger: logger)
        self.core = core
        thread = ServiceThread(
            name: name, drainTimeout: drainTimeout, loop: { try PublisherLoop(core).run() }, stop: { core.stop(within: $0) })
    }

    package var state: PublisherState { core.status.withLock { $0.state } }

    /// The node that it is connected to (`192.0.2.1:5672`); nil without a connection.
    package var peer: String? { core.status.withLock { $0.peer } }

    /// Messages that were taken and have no outcome yet.
    package var pending: Int { core.status.withLock { $0.pending } }

    /// Destinations whose queues owe a confirmation for too long (`push_broker_stalled_queues`).
    package var stalledQueues: Int { core.status.withLock { $0.stalledLines } }

    /// Hands messages over; never blocks. Before ``run()`` and without a connection they wait.
    /// - Parameter onAnswers: called with each message's outcome once, with those that came together, so that no message waits for another
    ///   one's. From the publisher's thread, which it must not hold up; or, when nothing was taken (all `.full` or all `.stopped`), before
    ///   this returns.
    package func publish(_ messages: [OutgoingMessage], onAnswers: @escaping @Sendable ([PublishAnswer]) -> Void) {
        core.submit(messages, onAnswers)
    }

    /// Publishes as ``publish(_:onAnswers:)`` does, and waits for the outcomes: at most for `deadline`, or until the task is cancelled.
    /// Then every message without an outcome is `.deadlineExceeded`, though it may still be stored.
    package func publish(_ messages: [OutgoingMessage], deadline: Duration?) async -> [PublishOutcome] {
        guard !messages.isEmpty else { return [] }
        let wait = PublishWait(count: messages.count)
        let timer = deadline.map { deadline in
            Task {
                // Cancelled when the outcomes are there: then the deadline is no longer needed.
                guard (try? await Task.sleep(for: deadline)) != nil else { return }
                wait.giveUp()
            }
        }
        defer { timer?.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                wait.wait(continuation)
                core.submit(messages) { wait.answer($0) }
            }
        } onCancel: {
            wait.giveUp()
        }
    }

    /// Gives up the connection and opens another one, over which every unconfirmed message is published again.
    /// - Parameter peer: the node where it goes, if that can be reached (`192.0.2.1:5672`).
    package func reconnect(because reason: String, at peer: String? = nil) {
        if let peer { core.settings.link.configuration.prefer(peer: peer) }
        core.reconnect(because: reason)
    }

    /// Publishes until graceful shutdown, then takes no more, waits for the outcomes of its messages, at most for `drainTimeout`, and
    /// returns; the rest is `.stopped`. Cancelling the task does the same without waiting. May be called once.
    package func run() async throws { try await thread.run() }
}

/// A task waits here for its outcomes. The last outcome or the end of its patience resumes it, once.
final class PublishWait: Sendable {
    private struct State {
        var outcomes: [PublishOutcome]
        var missing: Int
        var isOver = false
        var continuation: CheckedContinuation<[PublishOutcome], Never>?
    }

    private let state: Mutex<State>

    init(count: Int) {
        state = Mutex(State(outcomes: [PublishOutcome](repeating: .failed(.deadlineExceeded), count: count), missing: count))
    }

    func wait(_ continuation: CheckedContinuation<[PublishOutcome], Never>) {
        update { $0.continuation = continuation }
    }

    func answer(_ answers: [PublishAnswer]) {
        update { state in
            guard !state.isOver else { return }
            for answer in answers { state.outcomes[answer.index] = answer.outcome }
            state.missing -= answers.count
            state.isOver = state.missing == 0
        }
    }

    func giveUp() { update { $0.isOver = true } }

    private func update(_ change: (inout State) -> Void) {
        let (continuation, outcomes) = state.withLock { state in
            change(&state)
            return (state.isOver ? state.continuation.take() : nil, state.outcomes)
        }
        continuation?.resume(returning: outcomes)
    }
}
