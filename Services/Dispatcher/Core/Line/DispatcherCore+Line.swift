import APNs
import Broker
import PushModel

/// The path of a job through this process, in order: taken, sifted, sent, answered, settled. What follows (published, confirmed,
/// acknowledged) is in `DispatcherCore+Settlement.swift`.
extension DispatcherCore {
    /// 1. Jobs arrive from the broker.
    mutating func take(_ messages: [ReceivedMessage], at now: Int64) {
        guard !isStopping else { return giveBack(messages.map(\.receipt)) }
        for message in messages {
            let number = ledger.enter(message.receipt)
            guard let job = decode(message, as: number, at: now) else {
                ledger.pay(number)
                continue
            }
            tally.jobsTaken[job.lane, default: 0] += 1
            tally.deliveriesTaken += job.deliveries.count
            ledger.begin(number, lane: job.lane, deliveries: job.deliveries.count)
            let headers = message.headers
            noteQueueAge(of: job, headers, at: now)
            var progress = JobInProgress(
                number: number, app: directory.number(of: job.app), job: job, headers: JobHeaders(headers), takenAt: now,
                pending: DeliverySet(all: job.deliveries.count))
            guard outcomeRefusal == nil else {
                parkNewcomer(progress, at: now)
                continue
            }
            var next = NextSteps()
            sift(progress.pending, of: &progress, next: &next, at: now)
            spareThrottled(progress.pending, of: &progress, next: &next, at: now)
            stepBack(progress.pending, of: &progress, next: &next, at: now)
            send(progress.pending, of: &progress, next: &next, at: now)
            conclude(&progress, next, at: now)
            keep(consume progress, at: now)
        }
    }

    /// 2. What no version of this program can read goes to the dead letters as it came.
    private mutating func decode(_ message: ReceivedMessage, as number: UInt64, at now: Int64) -> PushJob? {
        do throws(MessageError) {
            return try decoder.decode(message.body)
        } catch {
            let reason =
                if case .unsupportedVersion = error.code { OwnReason.unsupportedVersion } else { OwnReason.undecodable }
            deadLetter(message, of: number, because: reason, detail: error.description, at: now)
            return nil
        }
    }

    /// 3. What is expired, cancelled or fenced is not sent. (The gate asks again at the last moment.)
    mutating func sift(_ candidates: DeliverySet, of job: inout JobInProgress, next: inout NextSteps, at now: Int64) {
        let (outcome, stopped): (OutcomeClass, DeliverySet) =
            if now >= job.job.expiresAt {
                (.expired, candidates)
            } else if gate.isCancelled(app: job.app, notification: job.job.notification) {
                (.cancelled, candidates)
            } else {
                (.fenced, gate.fenced(job.job.deliveries, among: candidates, app: job.app))
            }
        for index in stopped.indices { stop(outcome, index, of: &job, next: &next) }
    }

    /// Nothing more of a delivery is sent, on purpose. If an attempt had left before, it does not end as if nothing had.
    /// - Parameter reason: nil where the class says it all.
    mutating func stop(
        _ outcome: OutcomeClass, _ index: Int, reason: String? = nil, of job: inout JobInProgress, next: inout NextSteps
    ) {
        let last = outcome.after(job.attempts(of: index))
        guard last != outcome else { return report(outcome, index, Answered(reason: reason), of: &job) }
        report(last, index, Answered(reason: reason ?? outcome.rawValue), of: &job)
        // As where the plan finds that the next try would be too late. Of a stale job the broker has another copy.
        if outcome == .expired, !job.isStale { next.add(index, to: .expiresBeforeRetry) }
    }

    /// 4. The rest, but for what is held and what would disturb a throttled device or crowd other apps out, goes to the pools of its app, one batch each.
    mutating func send(_ deliveries: DeliverySet, of job: inout JobInProgress, next: inout NextSteps, at now: Int64) {
        guard !deliveries.isEmpty else { return }
        guard maySend else { return park(deliveries, of: &job, at: now) }
        if !holds.isEmpty, let hold = hold(on: job) { return putAside(deliveries, of: &job, under: hold, next: &next, at: now) }
        for environment in APNsEnvironment.allCases {
            let chosen = deliveries.filter { job.job.deliveries[$0].environment == environment }
            guard !chosen.isEmpty else { continue }
            if let pool = directory.pool(app: job.app, environment, topic: job.job.topic) {
                actions.append(.submit(APNsBatch(chosen, of: job), pool: pool))
            } else {
                actions.append(.note(.noCredential(app: job.job.app, environment: environment, notification: job.job.notification)))
                let wait = Answered(reason: OwnReason.noCredential)
                for index in chosen.indices { tryAgain(index, .misconfigured, .misconfigured, wait, of: &job, next: &next, at: now) }
            }
        }
    }

    /// 5. A pool is done with a batch.
    mutating func finish(_ finished: APNsFinishedBatch, at now: Int64) {
        guard var job = jobs.removeValue(forKey: BatchTag(finished.batch.tag).job) else { return }
        var next = NextSteps()
        for answer in finished.answers where job.pending.contains(answer.index) {
            settle(answer, of: &job, next: &next, at: now)
        }
        if !next.resubmit.isEmpty {
            job.resubmissions += 1
            send(next.resubmit, of: &job, next: &next, at: now)
        }
        // The gate was closed, or a hold there, when the pool asked; here it is known whether it still is.
        send(next.held, of: &job, next: &next, at: now)
        conclude(&job, next, at: now)
        keep(consume job, at: now)
    }

    /// 6. What each answer means, by the one table.
    private mutating func settle(_ answer: APNsAnswer, of job: inout JobInProgress, next: inout NextSteps, at now: Int64) {
        var said = Answered(sentAt: answer.sentAt)
        let verdict: OutcomeTable.Verdict
        switch answer.result {
        case .response(let status, let reason, let timestamp, let retryAfter):
            said.status = status
            said.reason = reason
            said.timestamp = timestamp
            said.retryAfter = retryAfter
            verdict = OutcomeTable.verdict(status: status, reason: reason)
        case .unknown(let reason):
            said.reason = reason.rawValue
            verdict = OutcomeTable.verdict(unansweredUnder: job.job.onUnknown)
        case .notSent(let reason):
            said.sentAt = nil
            said.reason = reason.rawValue
            verdict = OutcomeTable.verdict(reason)
        case .stopped(let reason):
            verdict = OutcomeTable.verdict(reason)
        }
        act(on: verdict, answer.index, said, of: &job, next: &next, at: now)
    }

    private mutating func act(
        on verdict: OutcomeTable.Verdict, _ index: Int, _ said: Answered, of job: inout JobInProgress, next: inout NextSteps, at now: Int64
    ) {
        switch verdict {
        case .final(.tokenRejected) where mayTryOtherEnvironment(index, said, of: job):
            tryOtherEnvironment(index, said, of: &job, next: &next, at: now)
        case .final(let outcome): report(outcome, index, said, of: &job)
        case .stop(let outcome): stop(outcome, index, of: &job, next: &next)
        // The broker delivers a stale job anew: whatever is left of it is that copy's business.
        case _ where job.isStale: _ = job.pending.remove(index)
        case .again(_, .notSent) where isStopping: job.returned.insert(index)
        case .returned where isStopping, .park where isStopping: job.returned.insert(index)
        // Its pool's credential was replaced: the new pool takes it.
        case .returned where job.resubmissions < rules.maximumResubmissions: next.resubmit.insert(index)
        case .returned: tryAgain(index, nil, .notSent, said, of: &job, next: &next, at: now)
        case .again(let outcome, let cause): tryAgain(index, outcome, cause, said, of: &job, next: &next, at: now)
        case .againAtOnce: sendSecondCopy(index, said, of: &job, next: &next, at: now)
        case .park: next.held.insert(index)
        }
    }

    /// 7. A delivery that is not done waits in a delayed queue, or is given up.
    mutating func tryAgain(
        _ index: Int, _ outcome: OutcomeClass?, _ cause: RetryCause, _ said: Answered, of job: inout JobInProgress, next: inout NextSteps,
        at now: Int64
    ) {
        job.note(cause.leaves, index)
        let decision =
            next.decided(cause, said)
            ?? rules.retries.decide(
                cause, lane: job.job.lane, attempt: job.attempt, waits: job.headers.waits, retryAfter: said.retryAfter, now: now,
                expiresAt: job.job.expiresAt,
                using: &random)
        next.remember(decision, for: cause, said)
        switch decision {
        case .again(let delay):
            _ = job.pending.remove(index)
            next.add(index, to: NextSteps.Retry(delay: delay, countsAsAttempt: cause.countsAsAttempt))
            if let outcome { report(outcome, index, said, retryAt: now + delay.milliseconds, of: &job) }
            if cause == .throttled { noteThrottled(index, of: job, until: now + delay.milliseconds) }
        case .end(let end):
            report(OutcomeTable.lastClass(after: job.attempts(of: index), because: end), index, said, of: &job)
            next.add(index, to: end)
        }
    }

    /// 8. Retries and dead letters, one message for each group.
    mutating func conclude(_ job: inout JobInProgress, _ next: NextSteps, at now: Int64) {
        guard !next.isEmpty else { return }
        for (retry, indices) in next.retries {
            retryLater(indices, of: &job, after: retry.delay, countsAsAttempt: retry.countsAsAttempt, at: now)
        }
        if !next.secondCopies.isEmpty { publishSecondCopies(next.secondCopies, of: &job, at: now) }
        for (end, indices) in next.ends { deadLetter(indices, of: job, because: end, at: now) }
    }

    /// 9. The job stays until every delivery is decided.
    mutating func keep(_ job: consuming JobInProgress, at now: Int64) {
        if job.pending.isEmpty {
            gate.forget(job.number)
            ledger.pay(job.number)
            if job.job.attempt == 0 && job.headers.waits == 0 {
                tally.finished.append(CoreTally.Finished(lane: job.job.lane, milliseconds: max(0, now - job.job.acceptedAt)))
            }
        } else if isStopping && job.isAtRest {
            handOver(job, at: now)
        } else {
            let number = job.number
            jobs[number] = consume job
        }
    }
}

/// What is known about one try of one delivery.
struct Answered {
    var sentAt: Int64?
    var status: Int?
    var reason: String?
    var timestamp: Int64?
    var retryAfter: Duration?
}

/// What a batch's answers ask for beyond outcomes. Mostly empty.
struct NextSteps {
    struct Retry: Equatable {
        let delay: RetryDelay
        let countsAsAttempt: Bool
    }

    private(set) var retries: [(Retry, [Int])] = []
    private(set) var ends: [(RetryPlan.EndReason, [Int])] = []
    private var decisions: [(RetryCause, RetryPlan.Decision)] = []
    var resubmit = DeliverySet()
    var held = DeliverySet()
    /// Sent once more at once: see ``DispatcherCore/sendSecondCopy(_:_:of:next:at:)``.
    var secondCopies: [Int] = []

    var isEmpty: Bool { retries.isEmpty && ends.isEmpty && secondCopies.isEmpty }

    /// One draw for each cause and batch: its deliveries come back in one message.
    func decided(_ cause: RetryCause, _ said: Answered) -> RetryPlan.Decision? {
        said.retryAfter == nil ? decisions.first { $0.0 == cause }?.1 : nil
    }

    mutating func remember(_ decision: RetryPlan.Decision, for cause: RetryCause, _ said: Answered) {
        guard said.retryAfter == nil, decided(cause, said) == nil else { return }
        decisions.append((cause, decision))
    }

    mutating func add(_ index: Int, to retry: Retry) {
        if let place = retries.firstIndex(where: { $0.0 == retry }) {
            retries[place].1.append(index)
        } else {
            retries.append((retry, [index]))
        }
    }

    mutating func add(_ index: Int, to end: RetryPlan.EndReason) {
        if let place = ends.firstIndex(where: { $0.0 == end }) { ends[place].1.append(index) } else { ends.append((end, [index])) }
    }
}
