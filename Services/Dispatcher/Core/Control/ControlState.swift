package import APNs
package import PushModel
import Synchronization

/// The fences and cancelled notifications that the control stream has announced. Pure; ``ControlGate`` shares it between threads.
///
/// Bounded by age: an entry is forgotten once no job that it could stop can still be alive. Entries of apps that no credential names are
/// kept as well: a credential for them may come at any time, and their jobs wait for it.
package struct ControlState: Sendable {
    /// An app's place in ``CredentialDirectory``.
    package typealias AppIndex = UInt16

    private struct FencedInstallation: Hashable {
        let app: AppIndex
        let installation: PushID
    }

    private struct CancelledNotification: Hashable {
        let app: AppIndex
        let notification: PushID
    }

    /// The epoch of each installation below which epochs are over.
    private var fences = AgingTable<FencedInstallation, Int64>()
    private var cancels = AgingTable<CancelledNotification, Void>()

    var count: Int { fences.count + cancels.count }

    /// Later fences never lower an earlier one: the stream is read from its beginning after every reconnect.
    package mutating func fence(app: AppIndex, installation: PushID, epochsBelow: Int64, at: Int64) {
        fences.update(FencedInstallation(app: app, installation: installation), at: at) { max(epochsBelow, $0 ?? .min) }
    }

    mutating func cancel(app: AppIndex, notification: PushID, at: Int64) {
        cancels.update(CancelledNotification(app: app, notification: notification), at: at) { _ in }
    }

    func isFenced(app: AppIndex, installation: PushID, ownerEpoch: Int64) -> Bool {
        #if PUSH_DELIBERATE_FAULTS
            if DeliberateFault.chosen == .noFence { return false }
        #endif
        guard let epochsBelow = fences[FencedInstallation(app: app, installation: installation)] else { return false }
        return ownerEpoch < epochsBelow
    }

    func isCancelled(app: AppIndex, notification: PushID) -> Bool {
        cancels[CancelledNotification(app: app, notification: notification)] != nil
    }

    /// Does a part of the work at a time, because each check waits for the lock around this.
    /// - Parameter moment: UNIX milliseconds; entries from before it go.
    package mutating func forget(before moment: Int64) {
        fences.forget(before: moment, looking: Self.looksAtOnce)
        cancels.forget(before: moment, looking: Self.looksAtOnce)
    }

    private static let looksAtOnce = 1_000
}

/// A dictionary that drops old entries, in many small parts: growth and the search for old entries each touch one part. So a request that
/// waits for the lock around it never waits for all of it.
struct AgingTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Entry {
        var value: Value
        var at: Int64
    }

    /// The number of parts: with three million entries a part holds three thousand, which takes some ten microseconds to scan.
    private static var partCount: Int { 1024 }

    private var parts = [[Key: Entry]](repeating: [:], count: partCount)
    /// The place where the search goes on.
    private var next = 0
    private(set) var count = 0

    subscript(key: Key) -> Value? { count == 0 ? nil : parts[Self.part(of: key)][key]?.value }

    /// - Parameters:
    ///   - moment: the moment of the entry, in UNIX milliseconds; one older than the present one does not change its age.
    ///   - change: makes the new value of the present one.
    mutating func update(_ key: Key, at moment: Int64, _ change: (Value?) -> Value) {
        let part = Self.part(of: key)
        let known = parts[part][key]
        parts[part][key] = Entry(value: change(known?.value), at: max(moment, known?.at ?? .min))
        if known == nil { count += 1 }
    }

    /// Reads `limit` entries, or at most those of one more part, and drops the old ones; the next call goes on from there.
    mutating func forget(before moment: Int64, looking limit: Int) {
        var (looked, seen) = (0, 0)
        while looked < limit, seen < Self.partCount, count > 0 {
            let size = parts[next].count
            if size > 0, parts[next].values.contains(where: { $0.at < moment }) {
                parts[next] = parts[next].filter { $0.value.at >= moment }
                count -= size - parts[next].count
            }
            looked += size
            seen += 1
            next = (next + 1) % Self.partCount
        }
    }

    /// The hash is seeded anew in each process, so that no caller can choose ids that all fall into one part.
    private static func part(of key: Key) -> Int { Int(truncatingIfNeeded: UInt(bitPattern: key.hashValue) % UInt(partCount)) }
}

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
