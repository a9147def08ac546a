import APNs
import Broker
import Logging
import PushModel
import ServiceLifecycle
import Synchronization
import SystemIO

/// Performs commands for broadcast channels. It makes the request, publishes the answer, and acknowledges the command when the broker has
/// confirmed the answer.
struct ChannelCommandService: Service {
    /// Commands that this process has at once. A second dispatcher finds work too, and a death leaves few without an answer.
    static let prefetch: UInt16 = 16
    private static let pause: Duration = .seconds(1)
    /// The header that says why a waiting command was not carried out.
    private static let reasonHeader = "push-reason"

    let messages: AsyncStream<ReceivedMessage>
    let consumer: Consumer
    let requests: ChannelRequests
    let pools: PoolTable
    let credentials: CredentialKeeper
    let publisher: Publisher
    let topology: Topology
    /// CloudEvents `source` of the answers.
    let source: String
    /// The pools are shut down, or soon will be.
    let isStopping: @Sendable () -> Bool
    let metrics: DispatcherMetrics
    let logger: Logger

    /// At a graceful shutdown the pools have been told to close, so each request in flight has its answer soon.
    func run() async {
        await withDiscardingTaskGroup { group in
            for await message in messages.cancelOnGracefulShutdown() {
                group.addTask { await handle(message) }
            }
        }
    }

    private func handle(_ message: ReceivedMessage) async {
        do throws(MessageError) {
            let command = try ChannelCommand(decoding: message.body)
            // The dispatcher that had it before may have created a channel.
            let step: Step =
                message.redelivered && command.request.operation == .create
                ? .answer(answer(command, .unanswered, because: ChannelAnswer.OwnReason.redelivered))
                : await perform(command, after: message.header(Self.reasonHeader))
            let outgoing: OutgoingMessage
            switch step {
            case .answer(let answer):
                metrics.count(answer.operation, answer.result)
                log(answer)
                outgoing = self.message(answer)
            case .wait(let reason):
                // The same words for each of an app's commands: the log repeats a lasting warning rarely.
                logger.warning(
                    "A command for a broadcast channel waits",
                    metadata: [
                        DispatcherLogKey.app: "\(command.app)", DispatcherLogKey.environment: "\(command.environment.rawValue)",
                        DispatcherLogKey.reason: "\(reason)",
                    ])
                outgoing = waiting(command, because: reason)
            }
            if await publish(outgoing) { consumer.acknowledge([message.deliveryTag]) } else { consumer.giveBack([message.deliveryTag]) }
        } catch {
            metrics.countUndecodableCommand()
            logger.error("A message is no command for a channel and was dead-lettered", metadata: [DispatcherLogKey.detail: "\(error)"])
            consumer.discard([message.deliveryTag])
        }
    }

    private enum Step {
        case answer(ChannelAnswer)
        /// The command waits in a delayed queue, where it takes no other team's place: a pool may be paused for long.
        case wait(because: String)
    }

    /// Makes the request, unless the command has expired.
    /// - Parameter earlier: why the try before it was in vain.
    private func perform(_ command: ChannelCommand, after earlier: String?) async -> Step {
        guard WallClock.milliseconds() < command.expiresAt else { return .answer(answer(command, .expired, because: earlier)) }
        guard let pool = pool(for: command) else { return .answer(answer(command, .noCredential)) }
        let said = await requests.answer { tag in
            pools.submit(
                [
                    APNsBatch(tag: tag, id: command.id, command.request, bundleID: command.bundleID, expiresAt: command.expiresAt)
                ], to: pool)
        }
        switch said.result {
        case .response(let status, let reason, _, _):
            // The connection's fault: another one will do.
            if APNsMeaning(status: status, reason: reason).effect == .connectionFault { return .wait(because: reason ?? "\(status)") }
            return .answer(
                ChannelAnswer(command, status: status, reason: reason, said.content, source: source, now: WallClock.milliseconds()))
        case .unknown(let why): return .answer(answer(command, .unanswered, because: why.rawValue))
        case .notSent(let why): return .wait(because: why.rawValue)
        case .stopped: return .answer(answer(command, .expired, because: earlier))
        }
    }

    private func answer(_ command: ChannelCommand, _ result: ChannelAnswer.Result, because reason: String? = nil) -> ChannelAnswer {
        ChannelAnswer(command, result, because: reason, source: source, now: WallClock.milliseconds())
    }

    private func pool(for command: ChannelCommand) -> PoolNumber? {
        var directory = CredentialDirectory(credentials.plan)
        let app = directory.number(of: command.app)
        return directory.channelPool(app: app, command.environment, bundleID: command.bundleID)
    }

    private func message(_ answer: ChannelAnswer) -> OutgoingMessage {
        OutgoingMessage(
            exchange: topology.outcomesExchange, routingKey: ChannelAnswer.routingKey, messageID: answer.id,
            contentType: ChannelAnswer.contentType, body: answer.encoded(), fallbackExchanges: [topology.waitingOutcomesExchange])
    }

    private func waiting(_ command: ChannelCommand, because reason: String) -> OutgoingMessage {
        OutgoingMessage(
            exchange: topology.waitingCommandsExchange, routingKey: topology.commandsQueue, messageID: command.id,
            contentType: ChannelCommand.contentType, headers: [Self.reasonHeader: reason], body: command.encoded())
    }

    /// - Returns: false if the process stops before the broker has confirmed the message.
    private func publish(_ message: OutgoingMessage) async -> Bool {
        while true {
            // A publisher without a connection would keep each try.
            if publisher.state == .ready, await publisher.publish([message], deadline: .seconds(5)).allSatisfy(\.isConfirmed) {
                return true
            }
            if isStopping() { return false }
            await rest()
        }
    }

    /// A cancelled task does not pause. Its loop ends by its own condition.
    private func rest() async { try? await Task.sleep(for: Self.pause) }

    private func log(_ answer: ChannelAnswer) {
        var metadata: Logger.Metadata = [
            DispatcherLogKey.command: "\(answer.command)", DispatcherLogKey.app: "\(answer.app)",
            DispatcherLogKey.environment: "\(answer.environment.rawValue)",
            DispatcherLogKey.operation: "\(answer.operation.rawValue)", DispatcherLogKey.result: "\(answer.result.rawValue)",
        ]
        if let reason = answer.reason { metadata[DispatcherLogKey.reason] = "\(reason)" }
        logger.log(
            level: answer.result == .done ? .info : .warning, "A command for a broadcast channel has its answer", metadata: metadata)
    }
}

/// The requests of channel management that pools have, and the tasks that await their answers. Thread-safe.
final class ChannelRequests: Sendable {
    private struct Contents {
        var lastTag: UInt64 = 0
        var waiting: [UInt64: CheckedContinuation<APNsAnswer, Never>] = [:]
    }

    private let contents = Mutex(Contents())

    /// Awaits the answer to a batch of one request. A pool gives every batch back, also when it is shut down.
    /// - Parameter submit: gets the batch's tag, and hands the batch to a pool.
    func answer(_ submit: (_ tag: UInt64) -> Void) async -> APNsAnswer {
        await withCheckedContinuation { continuation in
            let tag = contents.withLock { contents in
                contents.lastTag += 1
                contents.waiting[contents.lastTag] = continuation
                return contents.lastTag
            }
            submit(tag)
        }
    }

    func finish(_ finished: [APNsFinishedBatch]) {
        for one in finished {
            let continuation = contents.withLock { $0.waiting.removeValue(forKey: one.batch.tag) }
            if let continuation, let answer = one.answers.first { continuation.resume(returning: answer) }
        }
    }
}

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
