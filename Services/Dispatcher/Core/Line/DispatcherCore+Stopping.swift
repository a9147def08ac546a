import APNs
import Broker
import PushModel

/// The ends: of this process, and of the connection that brought the jobs.
extension DispatcherCore {
    /// Promise 11: nothing new is taken; what is in flight is finished; what was not sent goes back.
    mutating func stop(at now: Int64) {
        guard !isStopping else { return }
        isStopping = true
        actions.append(.stopTaking)
        actions.append(.shutDownPools)
        for number in jobs.keys.sorted() {
            guard let job = jobs.removeValue(forKey: number) else { continue }
            keep(job, at: now)
        }
    }

    /// Nothing happened to these: the broker delivers them to another dispatcher.
    mutating func giveBack(_ receipts: [Receipt]) {
        tally.givenBack += receipts.count
        actions.append(.giveBack(receipts))
    }

    /// Nothing of the job is in a pool any more, and some of it was not sent: whole if nothing happened to it, else only the rest.
    mutating func handOver(_ job: JobInProgress, at now: Int64) {
        gate.forget(job.number)
        guard !job.isStale else { return ledger.pay(job.number) }
        if !job.hasResults {
            if let receipt = ledger.withdraw(job.number) { giveBack([receipt]) }
            return
        }
        var job = job
        retryLater(job.pending.indices, of: &job, after: .atLeast(.seconds(1)), countsAsAttempt: false, at: now)
        ledger.pay(job.number)
    }

    /// The broker delivers every unacknowledged job anew, here or elsewhere. What has left is still reported, because reports are
    /// idempotent; what has not is that copy's business, and so are retries.
    mutating func forgetReceipts() {
        ledger.forgetAll()
        outbox.removeAll { $0.kind == .retry }
        refused.removeAll { $0.kind == .retry }
        if !jobs.isEmpty { actions.append(.note(.jobsForgotten(count: jobs.count))) }
        for number in jobs.keys.sorted() {
            guard var job = jobs.removeValue(forKey: number) else { continue }
            job.isStale = true
            job.pending.subtract(job.parked)
            job.pending.subtract(job.returned)
            job.parked = DeliverySet()
            job.returned = DeliverySet()
            guard !job.pending.isEmpty else {
                gate.forget(number)
                continue
            }
            gate.stop(number, because: .held)
            jobs[number] = job
        }
    }
}
