import Broker
import Logging
import Postgres
import PushModel
import ServiceLifecycle

extension OutcomeConsumer {
    /// Applies a dispatcher's answer about a broadcast channel. While the database is away it waits, as outcomes do.
    func applyChannelAnswer(_ message: ReceivedMessage) async {
        let answer: ChannelAnswer
        do throws(MessageError) { answer = try ChannelAnswer(decoding: message.body) } catch {
            metrics.undecodableOutcome()
            return await deadLetter(message, reason: "undecodable_channel_answer", error: error)
        }
        var backOff = Duration.milliseconds(100)
        while true {
            do {
                try await channels.apply(answer)
                break
            } catch  where Refusal(error) != .outage {
                // The outcomes behind it do not wait. The command runs out of time, and the worker asks Apple again.
                logger.failed("A dispatcher's answer about a channel could not be recorded", error)
                break
            } catch {
                logger.failed("A dispatcher's answer about a channel waits for the database", error)
                guard !Task.isShuttingDownGracefully, await Pause.of(backOff) else { return }
                backOff = min(backOff * 2, .seconds(5))
            }
        }
        consumer.acknowledge([message.receipt])
    }
}
