import APNs
import Broker
import PushModel

/// An input of the core. All arrive in one mailbox, so that they have one order.
enum CoreEvent: Sendable {
    case jobsReceived([ReceivedMessage])
    case batchFinished(APNsFinishedBatch)
    /// Outcomes of some messages of a publication.
    case published(PublicationNumber, [PublishAnswer])
    case markerPublished(PushID, PublishOutcome)
    /// Entries of the control stream, or copies of them.
    case controlReceived([ReceivedMessage])
    case jobsConnection(Lane, isUp: Bool)
    case controlConnection(isUp: Bool)
    /// The process did nothing for a while: it was frozen, or the machine slept.
    case resumed
    /// The credentials' pools are there.
    case credentialsChanged(CredentialPlan)
    /// Take no new jobs, finish the requests in flight.
    case stop
}

typealias PublicationNumber = UInt64

/// An order of the core. The thread that runs it performs these in order.
enum CoreAction: Sendable {
    case submit(APNsBatch, pool: PoolNumber)
    /// Answered by ``CoreEvent/published(_:_:)`` with the same number, once for each message.
    case publish(PublicationNumber, [OutgoingMessage])
    /// Answered by ``CoreEvent/markerPublished(_:_:)``.
    case publishMarker(PushID, OutgoingMessage)
    /// Reconnect both: the publisher of markers, and the reader of the control stream; with `leavingNode` at another node of the broker.
    case reconnectControl(because: String, leavingNode: Bool)
    /// The publisher and the reader of the control stream have been at different nodes for long.
    case reconnectPublisher(because: String)
    /// The delivery tags are of the lane's queue, as are those of the next two.
    case acknowledge(Lane, [DeliveryTag])
    case giveBack(Lane, [DeliveryTag])
    /// The broker hands them to the dead letters.
    case discard(Lane, [DeliveryTag])
    case acknowledgeControl([DeliveryTag])
    /// The control stream has been read: jobs may come. Once.
    case startTaking
    /// No more jobs are wanted. Once.
    case stopTaking
    /// These pools serve no longer: they finish requests in flight and give back the rest.
    case retirePools([PoolNumber])
    /// All pools finish requests in flight and give back the rest. Once.
    case shutDownPools
    case note(CoreNote)
}

/// An event for the log. Never a token or a payload.
enum CoreNote: Equatable, Sendable {
    case undecodable(reason: String, detail: String, messageID: PushID?, traceparent: String?)
    case noCredential(app: AppSlug, environment: APNsEnvironment, notification: PushID, traceparent: String?)
    case deadLettered(notification: PushID, reason: String, deliveries: Int, traceparent: String?)
    case unreadableControlMessage(detail: String)
    /// The control stream has been read, and this many holds are in force.
    case controlCaughtUp(holds: Int)
    case holdInForce(id: PushID, app: AppSlug?, lane: Lane?)
    case holdOver(id: PushID)
    case controlUncertain(because: String)
    case publishFailed(messages: Int, reason: String)
    /// They are not published again.
    case givenUp(messages: Int, reason: String)
    case outcomesRefused
    case outcomesTaken(afterMilliseconds: Int64)
    case jobsForgotten(count: Int)
}

/// The counts since they were last taken; the thread adds them to the metrics.
struct CoreTally: Equatable, Sendable {
    struct Outcome: Hashable, Sendable {
        /// Nil for apps that no credential names: other writers must not make metrics grow.
        let app: AppSlug?
        let outcome: OutcomeClass
        let isFinal: Bool
        /// The reason from a closed set; see ``OutcomeReason``.
        let reason: String
    }

    /// The kind of a control message.
    enum Control: String, Hashable, Sendable, CaseIterable {
        case fence, cancel, hold, unhold
    }

    /// A job at a point of its first try.
    struct Finished: Equatable, Sendable {
        let lane: Lane
        /// The time since its message was made.
        let milliseconds: Int64
    }

    var jobsTaken: [Lane: Int] = [:]
    var deliveriesTaken = 0
    var outcomes: [Outcome: Int] = [:]
    var retries: [RetryDelay: Int] = [:]
    /// Deliveries that were put aside because of a hold, counted each time.
    var held = 0
    var deadLettered = 0
    /// Messages that no queue took and that are not published again: as a rule dead letters.
    var lettersLost = 0
    var acknowledged = 0
    var givenBack = 0
    /// Jobs whose first try is over.
    var finished: [Finished] = []
    /// Jobs that were taken for their first try.
    var queued: [Finished] = []
    /// Milliseconds from each publication to its confirmation.
    var settlements: [Int64] = []
    var controlApplied: [Control: Int] = [:]
    /// Times that sending stopped because the control stream might be late.
    var controlDoubts = 0
    var isEmpty: Bool { self == CoreTally() }

    mutating func taken(_ job: borrowing JobInProgress, at now: Int64) {
        jobsTaken[job.job.lane, default: 0] += 1
        deliveriesTaken += job.job.deliveries.count
        if job.isFirstTry { queued.append(Finished(lane: job.job.lane, milliseconds: max(0, now - job.publishedAt))) }
    }

    mutating func decided(_ job: borrowing JobInProgress, at now: Int64) {
        if job.isFirstTry { finished.append(Finished(lane: job.job.lane, milliseconds: max(0, now - job.publishedAt))) }
    }

    /// - Parameter app: nil if no credential names it.
    mutating func count(_ event: OutcomeGatherer.Gathered, app: AppSlug?) {
        func kind(_ reason: String) -> Outcome {
            Outcome(app: app, outcome: event.outcome, isFinal: event.isFinal, reason: reason)
        }
        // The most frequent one by far has no reason.
        guard event.outcome != .accepted else { return outcomes[kind(OutcomeReason.none), default: 0] += event.deliveries.count }
        for delivery in event.deliveries { outcomes[kind(OutcomeReason.label(delivery.reason)), default: 0] += 1 }
    }
}
