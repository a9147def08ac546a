import Broker
import PushModel

/// The numbers that the core goes by. Times are in milliseconds.
struct CoreRules: Sendable {
    /// The longest that outcomes are gathered while the broker is busy.
    static let gatheringPause: Int64 = 4
    /// With the heartbeat's interval and a tick it is less than the second within which a fence has to be in force.
    static let standardConfirmPatience: Int64 = 650
    /// Far below RabbitMQ's `consumer_timeout`: half an hour, and five minutes at least.
    static let standardWaitingPatience: Int64 = 60_000

    var topology: Topology
    /// CloudEvents `source` of our outcomes.
    var source: String
    var retries = RetryPlan(maximumAttempts: 10)
    /// How many deliveries of a lane may be at work, half of them of an app that is alone.
    var deliveries: [Lane: Int] = [.now: 8_000, .soon: 8_000, .bulk: 800]
    /// How many messages of a lane may be here unsettled. Half of them may be at work of an app that is alone.
    var prefetch: [Lane: Int] = [.now: 1_000, .soon: 1_000, .bulk: 1_000]
    /// The pool of a job that it has had for so long is slow.
    var slowAfter: Int64 = 2_000
    /// A call that was accepted longer ago is not tried again (`on_unknown: resend_once`): the caller has given up, or the call arrived.
    var secondCopyAge: Int64 = 5_000
    /// A confirmation that takes longer means that the control stream may be late as well.
    var confirmPatience = CoreRules.standardConfirmPatience
    /// Without a publication for so long, one is made to see whether it is confirmed.
    var heartbeatInterval: Int64 = 200
    /// The longest between the broker's confirmation of a marker and its arrival, while nothing else of the stream arrives.
    var markerPatience: Int64 = 1_000
    /// Jobs that wait longer than this for the control stream, or for room for outcomes, go to a delayed queue: the
    /// broker gives no job an unlimited time.
    var waitingPatience = CoreRules.standardWaitingPatience
    /// Pause before messages that the broker refused are published again.
    var refusalPause: Int64 = 250
    /// While outcomes are refused, how often one of them is published again to see whether there is room.
    var probePause: Int64 = 1_000
    /// No job lives longer than 72 hours, so older fences and cancels can stop nothing, and a hold that was not written again since is over. One hour for clocks.
    var controlMemory: Int64 = 73 * 3_600_000
}
