import Broker
import Observability
import PushModel

/// The constants of the core. Times are in milliseconds.
struct CoreRules: Sendable {
    /// The longest time for which outcomes are gathered while the broker is busy.
    static let gatheringPause: Int64 = 4
    /// With the heartbeat's interval and a tick it is less than the second within which a fence has to be in force.
    static let standardConfirmPatience: Int64 = 650
    /// Far below RabbitMQ's `consumer_timeout`: half an hour, and five minutes at least.
    static let standardWaitingPatience: Int64 = 60_000

    var topology: Topology
    /// CloudEvents `source` of our outcomes.
    var source: String
    var retries = RetryPlan(maximumAttempts: 10)
    /// Whose spans are recorded.
    var traces = Traces.off
    /// How many deliveries of a lane may be in progress; a single app gets at most half of them.
    var deliveries: [Lane: Int] = [.now: 8_000, .soon: 8_000, .bulk: 800]
    /// How many messages of a lane may be here unsettled. Of a single app, half of them may be in progress.
    var prefetch: [Lane: Int] = [.now: 1_000, .soon: 1_000, .bulk: 1_000]
    /// An app's pool is slow if at least half of the app's jobs in a lane have been in progress for this long.
    var slowAfter: Int64 = 2_000
    /// A call that was accepted longer ago is not tried again (`on_unknown: resend_once`): the caller has given up, or the call arrived.
    var secondCopyAge: Int64 = 5_000
    /// A confirmation that takes longer means that the control stream may be late as well.
    var confirmPatience = CoreRules.standardConfirmPatience
    /// After that long without a publication, or without a confirmation that is due, a heartbeat tests whether the broker confirms.
    var heartbeatInterval: Int64 = 200
    /// The longest time between the broker's confirmation of a marker and its arrival, while no other message of the stream arrives.
    var markerPatience: Int64 = 1_000
    /// Jobs that wait longer than this for the control stream, or for room for outcomes, go to a delayed queue: the broker bounds the time
    /// that a job may stay unacknowledged.
    var waitingPatience = CoreRules.standardWaitingPatience
    /// Pause before messages that the broker refused are published again.
    var refusalPause: Int64 = 250
    /// While the broker refuses outcomes, how often one of them is published again to find out whether there is room.
    var probePause: Int64 = 1_000
    /// No job lives longer than 72 hours, so older fences and cancels can stop no job, and a hold that was not repeated since is over. One
    /// hour for clocks.
    var controlMemory: Int64 = 73 * 3_600_000
}
