import Broker
import PushModel

/// Since when the broker refuses outcomes.
struct OutcomeRefusal {
    /// UNIX milliseconds.
    let since: Int64
    /// A copy of the event that was refused first. Once the broker takes it, there is room again.
    let probe: OutboundMessage
    var probedAt: Int64
    /// The broker has not answered the last copy yet.
    var isProbing = false
}

/// Back-pressure: while the broker refuses outcomes, nothing is sent (PushModel.docc, PD-0006).
///
/// So only what was in flight is answered and cannot be reported. Its outcomes wait in a durable queue, and its jobs are
/// acknowledged long before `consumer_timeout`, after which the broker would deliver them anew.
extension DispatcherCore {
    var maySend: Bool { control == .current && outcomeRefusal == nil }

    mutating func outcomeRefused(_ message: OutboundMessage, at now: Int64) {
        guard outcomeRefusal == nil else { return }
        gate.close()
        outcomeRefusal = OutcomeRefusal(since: now, probe: OutboundMessage(probing: message), probedAt: now)
        actions.append(.note(.outcomesRefused))
    }

    mutating func probeOutcomes(at now: Int64) {
        guard let refusal = outcomeRefusal, !refusal.isProbing, !isStopping else { return }
        guard now - refusal.probedAt >= rules.probePause || now < refusal.probedAt else { return }
        outcomeRefusal?.probedAt = now
        outcomeRefusal?.isProbing = true
        outbox.append(refusal.probe)
    }

    mutating func outcomesTaken(at now: Int64) {
        guard let refusal = outcomeRefusal else { return }
        outcomeRefusal = nil
        actions.append(.note(.outcomesTaken(afterMilliseconds: max(0, now - refusal.since))))
        goOn(at: now)
    }

    /// Nothing is decided about the job, because an expiry or a fence is an outcome too. It waits as for the control
    /// stream: here for a while, then in a delayed queue.
    mutating func parkNewcomer(_ job: consuming JobInProgress, at now: Int64) {
        var job = job
        park(job.pending, of: &job, at: now)
        keep(job, at: now)
    }
}
