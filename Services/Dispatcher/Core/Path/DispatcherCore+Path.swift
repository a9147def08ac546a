import APNs
import Broker
import Observability
import PushModel

/// The path of a job through this process, in order (docs/path.md, steps 4 to 9).
extension DispatcherCore {
    /// Jobs arrive from the broker, and wait for their turn.
    mutating func receive(_ messages: [ReceivedMessage]) {
        #if PUSH_DELIBERATE_FAULTS
            if DeliberateFault.chosen == .acknowledgeFirst {
                effects.actions += messages.map { .acknowledge(scheduler.lane(of: $0), [$0.deliveryTag]) }
            }
        #endif
        guard !isStopping else {
            for lane in Lane.allCases { giveBack(messages.filter { scheduler.lane(of: $0) == lane }, lane) }
            return
        }
        for message in messages { scheduler.append(message, of: directory.number(of: message.header(PushJob.appHeader))) }
    }

    /// Whether a job may begin.
    var hasWork: Bool { scheduler.hasWork(book.ledger.work) }

    /// 4. Begins the next jobs: some hundred microseconds' work, after which the thread checks for more urgent events.
    mutating func beginNext(at now: Int64) {
        guard let portion = scheduler.next(book.ledger.work) else { return }
        self.now = now
        for message in portion.messages { begin(message, of: portion.appLane) }
        if book.isFull { flush() }
    }

    /// 5. Decodes a job, takes out expired, cancelled, fenced and held-back deliveries, and sends the rest.
    private mutating func begin(_ message: ReceivedMessage, of appLane: AppLaneIndex) {
        let number = book.enter(message.deliveryTag, of: appLane.lane)
        guard let read = decode(message, as: number) else { return book.finish(number) }
        book.begin(number, of: appLane, deliveries: read.deliveries.count)
        var job = JobInProgress(
            number: number, appLane: appLane, app: directory.number(of: read.app), job: read, headers: JobHeaders(message.properties),
            publishedAt: message.messageID?.milliseconds ?? read.acceptedAt, takenAt: now, handedOverAt: steady,
            trace: rules.traces.isOn ? rules.traces.context(message.header(TraceContext.headerName)).map(JobTrace.init) : nil)
        effects.tally.taken(job, at: now)
        if let trace = job.trace { effects.spans.append(trace.wait(of: read, publishedAt: job.publishedAt, takenAt: now)) }
        // The broker takes no outcomes, and an expiry or a fence would be one.
        if book.refusal != nil {
            wait(job.pending, of: &job)
        } else {
            recall(job.pending, of: &job)
            sift(job.pending, of: &job)
            spareThrottled(job.pending, of: &job)
            stepBack(job.pending, of: &job)
            send(job.pending, of: &job)
        }
        publishOrEnd(job)
    }

    /// A message that this version cannot read goes to the dead letters unchanged.
    private mutating func decode(_ message: ReceivedMessage, as number: UInt64) -> PushJob? {
        do throws(MessageError) {
            return try decoder.decode(message.body)
        } catch {
            let reason =
                if case .unsupportedVersion = error.code { OwnReason.unsupportedVersion } else { OwnReason.undecodable }
            let dead = rules.topology.deadLetter(message, because: reason, detail: error.description, at: now)
            book.publish(dead, .unreadable, of: number)
            effects.tally.deadLettered += 1
            effects.actions.append(
                .note(
                    .undecodable(
                        reason: reason, detail: error.description, messageID: message.messageID,
                        traceparent: message.header(TraceContext.headerName))))
            return nil
        }
    }

    /// Ends expired, cancelled and fenced deliveries. (The gate checks again at the last moment.)
    private mutating func sift(_ candidates: DeliverySet, of job: inout JobInProgress) {
        let (outcome, stopped): (OutcomeClass, DeliverySet) =
            if now >= job.job.expiresAt {
                (.expired, candidates)
            } else if gate.isCancelled(app: job.app, notification: job.job.notification) {
                (.cancelled, candidates)
            } else {
                (.fenced, gate.fenced(job.job.deliveries, among: candidates, app: job.app))
            }
        for index in stopped.indices { stop(index, as: outcome, of: &job) }
    }

    /// `drop` and `resend_once` bound the number of copies. If the broker delivers such a job anew while this process lives, what became of
    /// its requests decides (docs/promises.md, 2).
    private mutating func recall(_ candidates: DeliverySet, of job: inout JobInProgress) {
        guard job.job.onUnknown != .resend, !careful.isEmpty else { return }
        var carriers: Set<UInt64> = []
        defer { for carrier in carriers { book.join(job.number, retriesOf: carrier) } }
        for index in candidates.indices {
            let id = job.job.deliveries[index].id
            if let carrier = careful.carrier(of: id, after: job.version) {
                _ = job.pending.remove(index)
                carriers.insert(carrier)
                continue
            }
            switch careful.fate(of: id, job.version) {
            case nil, .notLeft: break
            case .left:
                // The answer comes within the request's time, also after the expiry, so the planner is not asked.
                careful.pass(id, toRetryOf: job.number, as: job.version.next(countsAsAttempt: false), at: steady)
                perform(.retry(.notSent, after: .oneSecond), on: index, said: Answered(), of: &job)
            case .ended(let outcome, let reason): report(index, as: outcome, said: Answered(reason: reason), of: &job)
            case .unanswered:
                let step = planner.step(
                    after: .unknown(.connectionLost), earlier: job.attempts(of: index), mayTryOtherEnvironment: false, job: facts(of: job),
                    draws: &job.steps.draws)
                perform(step, on: index, said: Answered(reason: UnknownReason.connectionLost.rawValue), of: &job)
            }
        }
    }

    /// A device or channel that APNs throttles gets no push until its wait is over, and then only the newest of each collapse id.
    private mutating func spareThrottled(_ candidates: DeliverySet, of job: inout JobInProgress) {
        guard !throttled.isEmpty else { return }
        for index in candidates.indices {
            switch throttled.judge(job.device(index), collapseID: job.job.collapseID, age: job.age, now: now) {
            case .send: break
            case .superseded: stop(index, as: .cancelled, reason: OwnReason.superseded, of: &job)
            case .wait(let until):
                tryAgain(
                    index, because: .deviceThrottled, after: .milliseconds(until - now),
                    said: Answered(reason: OwnReason.deviceThrottled), of: &job)
            }
        }
    }

    /// While an app's pool is slow and the app holds more of a lane's prefetch than is left for the others, its newcomers wait in a delayed
    /// queue, so that the lane's other jobs arrive (docs/promises.md, 10).
    private mutating func stepBack(_ candidates: DeliverySet, of job: inout JobInProgress) {
        guard scheduler.isSlow(job.appLane), control.position == .current else { return }
        for index in candidates.indices { tryAgain(index, because: .notSent, of: &job) }
    }

    /// 6. Sends the rest, without held deliveries, to the pools of its app, one batch each.
    private mutating func send(_ deliveries: DeliverySet, of job: inout JobInProgress) {
        guard !deliveries.isEmpty else { return }
        guard maySend else { return wait(deliveries, of: &job) }
        if !control.holds.isEmpty, let hold = hold(on: job) { return putAside(deliveries, of: &job, under: hold) }
        for environment in APNsEnvironment.allCases {
            let chosen = deliveries.filter { job.job.deliveries[$0].environment == environment }
            guard !chosen.isEmpty else { continue }
            if let pool = pool(of: job, environment) {
                if job.job.onUnknown != .resend { for index in chosen.indices { remember(.left, index, of: job) } }
                effects.actions.append(.submit(APNsBatch(chosen, of: job), pool: pool))
            } else {
                effects.actions.append(
                    .note(
                        .noCredential(
                            app: job.job.app, environment: environment, notification: job.job.notification,
                            traceparent: job.headers.traceparent)))
                for index in chosen.indices {
                    tryAgain(index, because: .misconfigured, said: Answered(reason: OwnReason.noCredential), of: &job)
                }
            }
        }
    }

    private func pool(of job: borrowing JobInProgress, _ environment: APNsEnvironment) -> PoolNumber? {
        job.job.isBroadcast
            ? directory.channelPool(app: job.app, environment, bundleID: job.job.topic)
            : directory.pool(app: job.app, environment, topic: job.job.topic)
    }

    /// A held delivery waits in a delayed queue, where it delays no other delivery, and comes back to be checked again, until the hold is
    /// over. That uses up no attempt. It is reported once for each hold.
    private mutating func putAside(_ deliveries: DeliverySet, of job: inout JobInProgress, under hold: HoldBook.Hold) {
        let isReported = (job.heldBy ?? job.headers.heldBy) == hold.id
        job.heldBy = hold.id
        let wait = holdPace.delay(until: hold.endsAt, at: now).duration
        for index in deliveries.indices {
            tryAgain(index, because: .held, after: wait, said: Answered(reason: hold.reason), isReported: isReported, of: &job)
        }
        effects.tally.held += deliveries.count
    }

    /// 8. A pool has finished a batch. One table gives the meaning of each answer (``Consequence``, ``RetryCause/row``).
    mutating func takeAnswers(_ finished: APNsFinishedBatch) {
        guard var job = jobs.removeValue(forKey: BatchTag(finished.batch.tag).job) else { return }
        let facts = facts(of: job)
        for answer in finished.answers where job.pending.contains(answer.index) {
            let step = planner.step(
                after: answer.result, earlier: job.attempts(of: answer.index),
                mayTryOtherEnvironment: mayTryOtherEnvironment(answer.index, of: job), job: facts, draws: &job.steps.draws)
            let said = Answered(answer)
            if let trace = job.trace, let sentAt = said.sentAt {
                effects.spans.append(
                    trace.request(finished.batch.target, job.job.deliveries[answer.index], sentAt: sentAt, answeredAt: now, said))
            }
            perform(step, on: answer.index, said: said, of: &job)
            if job.job.onUnknown != .resend { remember(CarefulDeliveries.Fate(step, answer.result), answer.index, of: job) }
        }
        // The gate was closed or a hold was in force when the pool asked. That may be over.
        let held = job.steps.held
        job.steps.held = DeliverySet()
        send(held, of: &job)
        publishOrEnd(job)
    }

    private mutating func remember(_ fate: CarefulDeliveries.Fate, _ index: Int, of job: borrowing JobInProgress) {
        careful.note(fate, of: job.job.deliveries[index].id, job.version, job: job.number, at: steady)
    }

    private mutating func noteCopies(_ indices: [Int], countAsAttempt: Bool, of job: borrowing JobInProgress) {
        let version = job.version.next(countsAsAttempt: countAsAttempt)
        for index in indices { careful.copied(job.job.deliveries[index].id, by: job.number, as: version, at: steady) }
    }

    private func mayTryOtherEnvironment(_ index: Int, of job: JobInProgress) -> Bool {
        let delivery = job.job.deliveries[index]
        return delivery.environmentTrial == .allowed
            && directory.pool(app: job.app, delivery.environment.other, topic: job.job.topic) != nil
    }

    private func facts(of job: borrowing JobInProgress) -> Planner.JobFacts {
        Planner.JobFacts(
            lane: job.job.lane, isBroadcast: job.job.isBroadcast, policy: job.job.onUnknown, acceptedAt: job.job.acceptedAt,
            expiresAt: job.job.expiresAt,
            attempt: job.attempt, waits: job.headers.waits, isStale: job.isStale, isStopping: isStopping, now: now)
    }

    /// - Parameter reason: nil if the class is the reason.
    private mutating func stop(_ index: Int, as outcome: OutcomeClass, reason: String? = nil, of job: inout JobInProgress) {
        let step = planner.stop(as: outcome, earlier: job.attempts(of: index))
        perform(step, on: index, said: Answered(reason: reason, stoppedAs: outcome.rawValue), of: &job)
    }

    private mutating func tryAgain(
        _ index: Int, because cause: RetryCause, after asked: Duration? = nil, said: Answered = Answered(), isReported: Bool = false,
        of job: inout JobInProgress
    ) {
        let step = planner.retry(
            because: cause, after: asked, earlier: job.attempts(of: index), job: facts(of: job), draws: &job.steps.draws)
        perform(step, on: index, said: said, isReported: isReported, of: &job)
    }

    /// - Parameter isReported: the try has been reported before.
    private mutating func perform(
        _ step: Planner.Step, on index: Int, said: Answered, isReported: Bool = false, of job: inout JobInProgress
    ) {
        switch step {
        case .end(let outcome): report(index, as: outcome, said: said, of: &job)
        case .giveUp(let outcome, let reason, let attempts):
            job.note(attempts, index)
            report(index, as: outcome, said: said, of: &job)
            job.steps.deadLetter(index, because: reason)
        case .retry(let cause, let delay):
            let row = cause.row
            job.note(cause.leaves, index)
            _ = job.pending.remove(index)
            job.steps.retry(index, after: delay, countsAsAttempt: row.countsAsAttempt)
            let until = now + delay.milliseconds
            if let outcome = row.outcome, !isReported { report(index, as: outcome, said: said, retryAt: until, of: &job) }
            switch cause {
            case .throttled: throttled.throttle(job.device(index), until: until, collapseID: job.job.collapseID, age: job.age)
            case .otherEnvironment: job.switched.insert(index)
            default: break
            }
        case .sendSecondCopy:
            job.note(RetryCause.noAnswer.leaves, index)
            job.steps.secondCopies.append(index)
            report(index, as: .unknown, said: said, retryAt: now, of: &job)
        case .wait: job.steps.held.insert(index)
        case .leaveToOtherCopy: _ = job.pending.remove(index)
        }
    }

    private mutating func report(
        _ index: Int, as outcome: OutcomeClass, said: Answered, retryAt: Int64? = nil, of job: inout JobInProgress
    ) {
        _ = job.pending.remove(index)
        var said = said
        if let stopped = said.stoppedAs, stopped != outcome.rawValue { said.reason = said.reason ?? stopped }
        let neverLeft = retryAt == nil && said.sentAt == nil && [.failed, .unknown].contains(outcome)
        let delivery = OutcomeEvent.Delivery(
            job.job.deliveries[index], of: job, said, retryAt: retryAt, attempt: neverLeft ? job.lastAttempt : job.attempt)
        book.report(delivery, outcome, isFinal: retryAt == nil, of: job.number, app: job.job.app)
    }

    /// 9. Publishes retries and dead letters, one message for each group. The job stays until every delivery is decided; the
    ///   ``SettlementBook`` does the rest (publish, confirm, acknowledge).
    private mutating func publishOrEnd(_ job: consuming JobInProgress) {
        if !job.steps.isEmpty { publishSteps(of: job) }
        job.steps = JobSteps()
        if job.pending.isEmpty {
            gate.forget(job.number)
            book.finish(job.number)
            effects.tally.decided(job, at: now)
            if let trace = job.trace { effects.spans.append(trace.work(on: job.job, takenAt: job.takenAt, decidedAt: now)) }
        } else {
            let number = job.number
            jobs[number] = consume job
        }
    }

    private mutating func publishSteps(of job: JobInProgress) {
        let topology = rules.topology
        for retry in job.steps.retries {
            let copy = job.copy(of: retry.indices, attempt: retry.countsAsAttempt ? job.attempt : job.job.attempt)
            let headers = job.headers.forRetry(
                waits: retry.countsAsAttempt ? 0 : job.headers.waits + 1, heldBy: job.heldBy, trace: job.trace)
            let message = topology.retry(of: copy, after: retry.delay, headers: headers, at: now)
            let isCareful = job.job.onUnknown != .resend
            // A job that the broker delivers anew leaves these to this retry.
            if isCareful { noteCopies(retry.indices, countAsAttempt: retry.countsAsAttempt, of: job) }
            book.publish(message, .retry, of: job.number, withdrawnWith: isCareful ? nil : job.appLane.lane)
            effects.tally.retries[retry.delay, default: 0] += retry.indices.count
        }
        if !job.steps.secondCopies.isEmpty {
            // The copy carries the rest of the decision: it leaves before its time is up or not at all, and there is no third one.
            var copy = job.copy(of: job.steps.secondCopies, attempt: job.attempt)
            copy.onUnknown = .drop
            copy.expiresAt = min(copy.expiresAt, copy.acceptedAt + rules.secondCopyAge)
            noteCopies(job.steps.secondCopies, countAsAttempt: true, of: job)
            let headers = job.headers.forRetry(waits: 0, heldBy: job.heldBy, trace: job.trace)
            book.publish(topology.retry(of: copy, after: nil, headers: headers, at: now), .retry, of: job.number)
        }
        for dead in job.steps.deadLetters {
            let copy = job.copy(of: dead.indices, attempt: job.attempt)
            let reason = dead.reason.rawValue
            let message = topology.deadLetter(of: copy, because: reason, headers: job.headers.kept, at: now)
            book.publish(message, .deadLetter, of: job.number)
            effects.tally.deadLettered += dead.indices.count
            effects.actions.append(
                .note(
                    .deadLettered(
                        notification: job.job.notification, reason: reason, deliveries: dead.indices.count,
                        traceparent: job.headers.traceparent)))
        }
    }

    /// The broker has answered for a publication.
    mutating func confirm(_ number: PublicationNumber, _ answers: [PublishAnswer]) {
        let change = book.confirm(number, answers, at: steady, &effects)
        if change.isHeartbeatLost { control.heartbeatFailed(at: steady, &effects) }
        if change.isRefusal { gate.close() }
        if change.isRefusalOver { goOn() }
    }

    // MARK: Waiting here

    private func wait(_ deliveries: DeliverySet, of job: inout JobInProgress) {
        if job.waiting.isEmpty { job.waitingSince = steady }
        for index in deliveries.indices { job.waiting.insert(index) }
    }

    /// Sifts waiting deliveries again before it sends them: a fence may have come meanwhile.
    mutating func sendWaiting() {
        forEachWaiting { core, job in
            let waiting = job.waiting
            job.waiting = DeliverySet()
            core.recall(waiting, of: &job)
            core.sift(job.pending.intersection(waiting), of: &job)
            core.spareThrottled(job.pending.intersection(waiting), of: &job)
            job.handedOverAt = core.steady
            core.send(job.pending.intersection(waiting), of: &job)
        }
    }

    /// Jobs that wait too long, or in a process that stops, wait in the broker instead, where they delay no other job. Not while the broker
    /// confirms nothing: the copies would stay here, and if the broker delivered the jobs anew, there would be two of each.
    mutating func moveWaiting() {
        guard isStopping || book.isConfirming(at: steady) else { return }
        let (patience, delay): (Int64, RetryDelay) = isStopping ? (0, .oneSecond) : (rules.waitingPatience, .thirtySeconds)
        forEachWaiting { core, job in
            guard core.steady - job.waitingSince >= patience else { return }
            core.recall(job.waiting, of: &job)
            for index in job.pending.intersection(job.waiting).indices {
                _ = job.pending.remove(index)
                job.steps.retry(index, after: delay, countsAsAttempt: false)
            }
            job.waiting = DeliverySet()
        }
    }

    private mutating func forEachWaiting(_ body: (inout DispatcherCore, inout JobInProgress) -> Void) {
        for number in jobs.values.filter({ !$0.waiting.isEmpty }).map(\.number).sorted() {
            guard var job = jobs.removeValue(forKey: number) else { continue }
            body(&self, &job)
            publishOrEnd(job)
        }
    }
}

/// The facts about one try of one delivery.
struct Answered {
    var sentAt: Int64?
    var status: Int?
    var reason: String?
    var timestamp: Int64?
    var uniqueID: String?
    /// The delivery was stopped on purpose. If an attempt had left before, it ends as another class, and this is the reason.
    var stoppedAs: String?

    init(reason: String? = nil, stoppedAs: String? = nil) {
        self.reason = reason
        self.stoppedAs = stoppedAs
    }

    init(_ answer: APNsAnswer) {
        sentAt = answer.sentAt
        uniqueID = answer.uniqueID
        switch answer.result {
        case .response(let status, let reason, let timestamp, _):
            (self.status, self.reason, self.timestamp) = (status, reason, timestamp)
        case .unknown(let why): reason = why.rawValue
        case .notSent(let why): (sentAt, reason) = (nil, why.rawValue)
        case .stopped(let why): (sentAt, stoppedAs) = (nil, why.rawValue)
        }
    }
}

extension JobInProgress {
    fileprivate func device(_ index: Int) -> ThrottledDevices.Device {
        let delivery = job.deliveries[index]
        return ThrottledDevices.Device(app: app, environment: delivery.environment, token: delivery.token)
    }

    fileprivate var age: ThrottledDevices.Age {
        ThrottledDevices.Age(acceptedAt: job.acceptedAt, notification: job.notification)
    }
}

extension OutcomeEvent.Delivery {
    fileprivate init(
        _ delivery: PushJob.Delivery, of job: borrowing JobInProgress, _ said: Answered, retryAt: Int64?, attempt: Int
    ) {
        self.init(
            id: delivery.id, notification: job.job.notification, installation: delivery.installation,
            attempt: attempt + job.headers.earlierAttempts, ownerEpoch: delivery.ownerEpoch, status: said.status,
            reason: said.reason, timestamp: said.timestamp, sentAt: said.sentAt, retryAt: retryAt,
            environment: delivery.environmentTrial == .made ? delivery.environment : nil, apnsUniqueID: said.uniqueID,
            traceparent: job.trace?.own.traceparent)
    }
}
