import APNs
import Broker
import Logging
import PushModel
import ServiceLifecycle
import SystemIO

/// Performs commands for broadcast channels. It makes the request, publishes the answer, and acknowledges the command when the broker has
/// confirmed the answer.
struct ChannelCommandService: Service {
    /// Commands that this process has at once. A second dispatcher finds work too, and a death leaves few without an answer.
    static let prefetch: UInt16 = 16
    private static let pause: Duration = .seconds(1)

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
            let answer = await perform(command, isRedelivered: message.redelivered)
            metrics.count(answer.operation, answer.result)
            log(answer)
            if await publish(answer) { consumer.acknowledge([message.receipt]) } else { consumer.giveBack([message.receipt]) }
        } catch {
            metrics.countUndecodableCommand()
            logger.error("A message is no command for a channel and was dead-lettered", metadata: [LogKey.detail: "\(error)"])
            consumer.discard([message.receipt])
        }
    }

    /// Tries until APNs answers, and begins no request at or after the command's expiry.
    private func perform(_ command: ChannelCommand, isRedelivered: Bool) async -> ChannelAnswer {
        // The dispatcher that had it before may have created a channel.
        if isRedelivered, command.request.operation == .create {
            return answer(command, .unanswered, because: ChannelAnswer.OwnReason.redelivered)
        }
        var last = answer(command, .expired)
        while WallClock.milliseconds() < command.expiresAt {
            guard let pool = pool(for: command) else { return answer(command, .noCredential) }
            let said = await requests.answer { tag in
                pools.submit(
                    [
                        APNsBatch(
                            tag: tag, id: command.id, command.request, bundleID: command.bundleID, expiresAt: command.expiresAt)
                    ], to: pool)
            }
            switch said.result {
            case .response(let status, let reason, _, _):
                last = ChannelAnswer(
                    command, status: status, reason: reason, said.content, source: source, now: WallClock.milliseconds())
                // The connection's fault: another one will do.
                guard APNsMeaning(status: status, reason: reason).effect == .connectionFault else { return last }
            case .unknown(let why): return answer(command, .unanswered, because: why.rawValue)
            case .notSent(let why): last = answer(command, .expired, because: why.rawValue)
            case .stopped: return last
            }
            if isStopping() { return last }
            await rest()
        }
        return last
    }

    private func answer(_ command: ChannelCommand, _ result: ChannelAnswer.Result, because reason: String? = nil) -> ChannelAnswer {
        ChannelAnswer(command, result, because: reason, source: source, now: WallClock.milliseconds())
    }

    private func pool(for command: ChannelCommand) -> PoolNumber? {
        var directory = CredentialDirectory(credentials.plan)
        let app = directory.number(of: command.app)
        return directory.channelPool(app: app, command.environment, bundleID: command.bundleID)
    }

    /// - Returns: false if the process stops before the broker has confirmed the answer.
    private func publish(_ answer: ChannelAnswer) async -> Bool {
        let message = OutgoingMessage(
            exchange: topology.outcomesExchange, routingKey: ChannelAnswer.routingKey, messageID: answer.id,
            contentType: ChannelAnswer.contentType, body: answer.encoded(), fallbackExchange: topology.waitingOutcomesExchange)
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
            LogKey.command: "\(answer.command)", LogKey.app: "\(answer.app)", LogKey.environment: "\(answer.environment.rawValue)",
            LogKey.operation: "\(answer.operation.rawValue)", LogKey.result: "\(answer.result.rawValue)",
        ]
        if let reason = answer.reason { metadata[LogKey.reason] = "\(reason)" }
        logger.log(
            level: answer.result == .done ? .info : .warning, "A command for a broadcast channel has its answer", metadata: metadata)
    }
}
