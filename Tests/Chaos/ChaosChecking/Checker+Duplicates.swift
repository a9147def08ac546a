import ChaosLedger
import PushModel

/// Kills of dispatchers, each of which may have caused a duplicate.
struct DuplicateSet: Hashable {
    /// Numbers of faults.
    let kills: [Int64]
    /// The token service may have published it twice as well.
    let isPublisher: Bool
}

/// Deliveries that APNs got more than once, and the reasons.
extension Checker {
    mutating func judgeDuplicates() {
        for delivery in pushLog.deliveries {
            if delivery.isAccepted { verdict.figures.delivered += 1 }
            guard pushLog.attempts[Int(delivery.last)].previous >= 0 else { continue }
            judgeAttempts(of: delivery)
        }
        judgeKills()
    }

    private mutating func judgeAttempts(of delivery: PushLog.Delivery) {
        let attempts = Array(pushLog.attempts(of: delivery).reversed())
        var handed: PushLog.Attempt?
        for (index, attempt) in attempts.enumerated() where attempt.fate.mayHaveArrived {
            defer { handed = attempt }
            guard let before = handed else { continue }
            verdict.figures.duplicated += 1
            guard before.fate == .accepted else {
                verdict.figures.explainedByAPNs += 1
                continue
            }
            explain(delivery, attempt, earlier: attempts[..<index])
        }
    }

    private mutating func explain(_ delivery: PushLog.Delivery, _ attempt: PushLog.Attempt, earlier attempts: ArraySlice<PushLog.Attempt>) {
        let earlier = attempts.map(\.time)
        var kills: [Int64] = []
        var isPublisher = false
        for fault in faults.all where fault.began <= attempt.time + 1000 {
            if fault.excuses.contains(.connection) || fault.excuses.contains(.apns) {
                guard isInFlight(earlier, fault, until: fault.recovered + run.recovery) else { continue }
                if fault.excuses.contains(.connection) {
                    verdict.figures.explainedByConnection += 1
                } else {
                    verdict.figures.explainedByAPNs += 1
                }
                return
            }
            let back = fault.recovered + run.recovery + (mayBeHeld(delivery, during: fault) ? StopBook.wayBack : 0)
            if fault.excuses.contains(.kill), isInFlight(earlier, fault, until: back) { kills.append(fault.id) }
            if fault.excuses.contains(.publisher), isBeingPublished(delivery, fault, first: earlier[0]) { isPublisher = true }
            if fault.excuses.contains(.retries), isBeingRetried(delivery, fault, attempts, until: attempt.time) { isPublisher = true }
        }
        if !kills.isEmpty {
            explained[DuplicateSet(kills: kills, isPublisher: isPublisher), default: 0] += 1
        } else if isPublisher {
            verdict.figures.explainedByPublisher += 1
        } else {
            let first = earlier.last ?? attempt.time
            verdict.find(
                .duplicated,
                """
                delivery \(delivery.id) to \(names.hint(delivery.token))\(marker(of: delivery)): accepted by APNs at \(at(first)), \
                pushed again at \(at(attempt.time)); \(faults.names(in: first...max(first, attempt.time)))
                """)
        }
    }

    private func marker(of delivery: PushLog.Delivery) -> String {
        delivery.send < 0 ? "" : " (marker \(sends[delivery.send].marker), request \(sends[delivery.send].request))"
    }

    /// Whether one of the attempts may have been unsettled because of the fault. A refused attempt counts too, because its retry was on its
    /// way to the broker and may have been published twice. The same applies to a job that was put off unsent, whose two copies are pushed
    /// when they come back.
    private func isInFlight(_ attempts: [Int64], _ fault: FaultTimeline.Fault, until end: Int64) -> Bool {
        attempts.contains { $0 >= fault.began - run.settling && $0 <= end }
    }

    /// Whether a hold may have had it put off at that time. It comes back later than another one.
    private func mayBeHeld(_ delivery: PushLog.Delivery, during fault: FaultTimeline.Fault) -> Bool {
        guard delivery.send >= 0, let id = sends[delivery.send].notification else { return false }
        return stops.mayBeHeld(sends[delivery.send], id, in: fault.began...max(fault.began, fault.recovered))
    }

    /// Whether the token service may have published its notification twice because of the fault.
    private func isBeingPublished(_ delivery: PushLog.Delivery, _ fault: FaultTimeline.Fault, first: Int64) -> Bool {
        // An end that the platform makes by itself is published at once.
        let begin = delivery.send < 0 ? first : max(sends[delivery.send].sentAt, sends[delivery.send].notBefore ?? 0)
        // The broker's confirm comes back and is stored within a moment of the job's arrival.
        return fault.began <= first + run.recovery && begin <= fault.recovered + run.recovery
    }

    /// Whether a retry of its job, on its way during the fault, may have been published twice. The ledgers show a retry by an attempt that
    /// was not accepted, or by a first attempt that came late: a delayed queue takes a second at least.
    private func isBeingRetried(
        _ delivery: PushLog.Delivery, _ fault: FaultTimeline.Fault, _ attempts: ArraySlice<PushLog.Attempt>, until end: Int64
    ) -> Bool {
        guard let first = attempts.first else { return false }
        let begin = delivery.send < 0 ? first.time : max(sends[delivery.send].sentAt, sends[delivery.send].notBefore ?? 0)
        let isRetried = attempts.contains { $0.fate != .accepted } || first.time - begin > run.grace
        return isRetried && begin <= fault.recovered + run.recovery && fault.began <= end
    }

    /// Each kill explains as many duplicates as its dispatcher had in flight. The kills are processed in their order, and each first takes
    /// the duplicates that no later kill can explain. This assignment is optimal, because the kills of a duplicate are consecutive.
    /// Duplicates with another explanation take the remaining room.
    private mutating func judgeKills() {
        let order = faults.all.filter { $0.excuses.contains(.kill) }.map(\.id)
        var rooms = Dictionary(uniqueKeysWithValues: order.map { ($0, run.inFlightBound) })
        for (set, count) in assign(explained.filter { !$0.key.isPublisher }, to: order, &rooms) {
            let names = set.kills.map { "\($0)" }.joined(separator: ", ")
            for _ in 0..<count {
                verdict.find(
                    .overBound, "more duplicates than \(run.inFlightBound) for each of the kills that can explain them: faults \(names)")
            }
        }
        for (_, count) in assign(explained.filter(\.key.isPublisher), to: order, &rooms) {
            verdict.figures.explainedByKill -= count
            verdict.figures.explainedByPublisher += count
        }
        verdict.figures.worstKill = run.inFlightBound - (rooms.values.min() ?? run.inFlightBound)
    }

    /// - Returns: the duplicates that no kill explains.
    private mutating func assign(
        _ sets: [DuplicateSet: Int], to order: [Int64], _ rooms: inout [Int64: Int]
    ) -> [(set: DuplicateSet, count: Int)] {
        let places = Dictionary(uniqueKeysWithValues: order.enumerated().map { ($1, $0) })
        func last(_ set: DuplicateSet) -> Int { set.kills.compactMap { places[$0] }.max() ?? 0 }
        var open = sets.map { (set: $0.key, count: $0.value) }.sorted { last($0.set) < last($1.set) }
        for kill in order {
            for index in open.indices where open[index].set.kills.contains(kill) {
                let taken = min(rooms[kill] ?? 0, open[index].count)
                open[index].count -= taken
                rooms[kill, default: 0] -= taken
            }
        }
        verdict.figures.explainedByKill += sets.values.reduce(0, +)
        return open.filter { $0.count > 0 }
    }

    /// Whether a fault on the path of a delivery may make APNs and the dispatcher disagree about it.
    func mayDiffer(_ delivery: PushLog.Delivery) -> Bool {
        let attempts = pushLog.attempts(of: delivery)
        if attempts.contains(where: { $0.fate == .unanswered }) { return true }
        let times = attempts.map(\.time)
        return faults.all.contains { fault in
            if fault.excuses.contains(.publisher), isBeingPublished(delivery, fault, first: times.last ?? 0) { return true }
            if fault.excuses.contains(.retries), isBeingRetried(delivery, fault, attempts.reversed()[...], until: times.first ?? 0) {
                return true
            }
            guard !fault.excuses.isDisjoint(with: [.kill, .connection, .apns]) else { return false }
            return isInFlight(times, fault, until: fault.recovered + run.recovery)
        }
    }
}
