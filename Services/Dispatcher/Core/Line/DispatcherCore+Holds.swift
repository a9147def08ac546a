import APNs
import Broker
import PushModel

/// Holds: what matches one goes round through the delayed queues until it is lifted or ends, uses up no attempt, and is not in the way of
/// what nobody holds.
extension DispatcherCore {
    mutating func hold(_ id: PushID, _ scope: HoldScope, endsAt: Int64?, toldAt: Int64, at now: Int64) {
        tally.controlApplied[.hold, default: 0] += 1
        let hold = HoldBook.Hold(id: id, scope: numbered(scope), endsAt: endsAt, toldAt: toldAt)
        guard holds.add(hold, at: now) else { return }
        holdsChanged()
        // What is read at the beginning may be over further on.
        if control == .current { actions.append(.note(.holdInForce(id: id, app: scope.app, lane: scope.lane))) }
    }

    mutating func lift(_ id: PushID, toldAt: Int64) {
        tally.controlApplied[.unhold, default: 0] += 1
        guard holds.lift(id, at: toldAt) else { return }
        holdsChanged()
        if control == .current { actions.append(.note(.holdOver(id: id))) }
    }

    /// With every tick: holds that end by themselves.
    mutating func endHolds(at now: Int64) { areOver(holds.end(at: now)) }

    /// Those that nobody has told for longer than any job lives.
    mutating func forgetHolds(before moment: Int64) { areOver(holds.forget(before: moment)) }

    private mutating func areOver(_ ids: [PushID]) {
        guard !ids.isEmpty else { return }
        holdsChanged()
        for id in ids { actions.append(.note(.holdOver(id: id))) }
    }

    /// What pools have not sent of jobs that are held now comes back; of jobs that are held no more it is sent.
    private mutating func holdsChanged() {
        guard !holds.isEmpty else { return gate.hold([]) }
        gate.hold(Set(jobs.values.filter { !$0.isStale && hold(on: $0) != nil }.map(\.number)))
    }

    func hold(on job: borrowing JobInProgress) -> HoldBook.Hold? {
        holds.hold(app: job.app, lane: job.job.lane, notification: job.job.notification)
    }

    /// Said once for each hold, however often the job goes round.
    mutating func putAside(
        _ deliveries: DeliverySet, of job: inout JobInProgress, under hold: HoldBook.Hold, next: inout NextSteps, at now: Int64
    ) {
        let outcome: OutcomeClass? = (job.heldBy ?? job.headers.heldBy) == hold.id ? nil : .held
        job.heldBy = hold.id
        let said = Answered(reason: hold.reason, retryAfter: holdPace.delay(until: hold.endsAt, at: now).duration)
        for index in deliveries.indices { tryAgain(index, outcome, .held, said, of: &job, next: &next, at: now) }
        tally.held += deliveries.count
    }

    private mutating func numbered(_ scope: HoldScope) -> HoldBook.Scope {
        switch scope {
        case .everything: .everything
        case .lane(let lane): .lane(lane)
        case .app(let app): .app(directory.number(of: app))
        case .appLane(let app, let lane): .appLane(directory.number(of: app), lane)
        case .notification(let app, let notification): .notification(directory.number(of: app), notification)
        }
    }
}
