import Broker
import Logging
import Postgres
import PushModel
import ServiceLifecycle
import TokenServiceKit
import TokenServiceSending

extension OutcomeConsumer {
    /// Applies a dispatcher's answer about a broadcast channel. While the database is away it waits, as outcomes do.
    func applyChannelAnswer(_ message: ReceivedMessage) async {
        let answer: ChannelAnswer
        do throws(MessageError) { answer = try ChannelAnswer(decoding: message.body) } catch {
            metrics.undecodableOutcome()
            return await deadLetter(message, reason: "undecodable_channel_answer", error: error)
        }
        var (backOff, triesLeft) = (Duration.milliseconds(100), 5)
        while true {
            do {
                try await channels.apply(answer)
                break
            } catch {
                let refusal = Refusal(error)
                if refusal == .size { triesLeft -= 1 }
                guard refusal == .outage || refusal == .size && triesLeft > 0 else {
                    // The outcomes behind it do not wait. The command runs out of time, and the worker asks Apple again.
                    logger.failed("A dispatcher's answer about a channel could not be recorded", error)
                    break
                }
                logger.failed("A dispatcher's answer about a channel waits for the database", error)
                guard !Task.isShuttingDownGracefully, await Pause.of(backOff) else { return }
                backOff = min(backOff * 2, .seconds(5))
            }
        }
        consumer.acknowledge([message.receipt])
    }
}
