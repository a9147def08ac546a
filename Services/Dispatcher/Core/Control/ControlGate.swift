package import APNs
import PushModel
import Synchronization

/// The last check before a request leaves (docs/promises.md, 3 and 6): the pools' threads call it, and the core's thread writes it.
///
/// Closed until the control stream has been read to its end, and whenever that is uncertain: a request that is not proven to be allowed is
/// not sent. The lock is held for one dictionary look-up.
package final class ControlGate: Sendable {
    private struct Contents {
        var state = ControlState()
        var isOpen = false
        /// Jobs that were stopped while a pool may have requests of them, and why.
        var stoppedJobs: [UInt64: StopReason] = [:]
        /// Held jobs that may have requests in a pool.
        var heldJobs: Set<UInt64> = []
    }

    private let contents = Mutex(Contents())

    package init() {}

    /// The number of entries; for the metrics.
    package var count: Int { contents.withLock { $0.state.count } }
    var isOpen: Bool { contents.withLock { $0.isOpen } }

    /// Thread-safe; called by a connection's thread for each request, just before it is submitted.
    package func stopReason(for request: APNsRequest, of batch: APNsBatch) -> StopReason? {
        let tag = BatchTag(batch.tag)
        return contents.withLock { contents in
            if let reason = contents.stoppedJobs[tag.job] { return reason }
            guard contents.isOpen, contents.heldJobs.isEmpty || !contents.heldJobs.contains(tag.job) else { return .held }
            let isFenced = contents.state.isFenced(app: tag.app, installation: request.installation, ownerEpoch: request.ownerEpoch)
            return isFenced ? .fenced : nil
        }
    }

    package func open() { contents.withLock { $0.isOpen = true } }
    func close() { contents.withLock { $0.isOpen = false } }

    package func apply(_ change: (inout ControlState) -> Void) {
        contents.withLock { change(&$0.state) }
    }

    func isCancelled(app: ControlState.AppIndex, notification: PushID) -> Bool {
        contents.withLock { $0.state.isCancelled(app: app, notification: notification) }
    }

    /// Which of `candidates` a fence covers, under one lock.
    func fenced(_ deliveries: [PushJob.Delivery], among candidates: DeliverySet, app: ControlState.AppIndex) -> DeliverySet {
        contents.withLock { contents in
            var fenced = DeliverySet()
            guard contents.state.count > 0 else { return fenced }
            for (index, delivery) in deliveries.enumerated() where candidates.contains(index) {
                if contents.state.isFenced(app: app, installation: delivery.installation, ownerEpoch: delivery.ownerEpoch) {
                    fenced.insert(index)
                }
            }
            return fenced
        }
    }

    /// Pools give back their unsent requests of these jobs, and of no others.
    func hold(_ jobs: Set<UInt64>) {
        contents.withLock { $0.heldJobs = jobs }
    }

    /// Pools send no more requests of this job.
    func stop(_ job: UInt64, because reason: StopReason) {
        contents.withLock { $0.stoppedJobs[job] = reason }
    }

    /// The job is over, so no pool has a request of it.
    func forget(_ job: UInt64) {
        contents.withLock { contents in
            if !contents.stoppedJobs.isEmpty { contents.stoppedJobs[job] = nil }
            if !contents.heldJobs.isEmpty { contents.heldJobs.remove(job) }
        }
    }
}
