import APNs
import PushModel

/// What holds a delivery back for the sake of others: its own device, or the other apps of its lane.
extension DispatcherCore {
    /// A device that APNs throttles gets nothing until its wait is over, and then only the newest of each collapse id.
    mutating func spareThrottled(_ candidates: DeliverySet, of job: inout JobInProgress, next: inout NextSteps, at now: Int64) {
        guard !throttled.isEmpty, !candidates.isEmpty else { return }
        let age = ThrottledDevices.Age(acceptedAt: job.job.acceptedAt, notification: job.job.notification)
        for index in candidates.indices {
            switch throttled.judge(device(index, of: job), collapseID: job.job.collapseID, age: age, now: now) {
            case .send: break
            case .superseded: stop(.cancelled, index, reason: OwnReason.superseded, of: &job, next: &next)
            case .wait(let until):
                let said = Answered(reason: OwnReason.deviceThrottled, retryAfter: .milliseconds(until - now))
                tryAgain(index, .throttled, .deviceThrottled, said, of: &job, next: &next, at: now)
            }
        }
    }

    /// - Parameter until: UNIX milliseconds.
    mutating func noteThrottled(_ index: Int, of job: JobInProgress, until: Int64) {
        throttled.throttle(
            device(index, of: job), until: until, collapseID: job.job.collapseID,
            age: ThrottledDevices.Age(acceptedAt: job.job.acceptedAt, notification: job.job.notification))
    }

    /// While an app's pool is slow and the app holds its share of the lane, its newcomers wait in a delayed queue, so that the prefetch
    /// is not used up by one (docs/promises.md, 10).
    mutating func stepBack(_ candidates: DeliverySet, of job: inout JobInProgress, next: inout NextSteps, at now: Int64) {
        guard !crowding.isEmpty, control == .current, crowding.contains(LaneShare(lane: job.job.lane, app: job.app)) else { return }
        let said = Answered()
        for index in candidates.indices { tryAgain(index, nil, .notSent, said, of: &job, next: &next, at: now) }
    }

    /// Finds the apps that crowd their lane, and what pools have had for long: that takes no room, so that the others of the lane go on.
    mutating func measureCrowding(at now: Int64) {
        var held: [LaneShare: LaneUse] = [:]
        for job in jobs.values where !job.isStale {
            held[LaneShare(lane: job.job.lane, app: job.app), default: LaneUse()].add(
                deliveries: job.job.deliveries.count, isSlow: now - job.takenAt >= rules.crowdingPatience)
        }
        crowding.removeAll(keepingCapacity: true)
        slowDeliveries.removeAll(keepingCapacity: true)
        for (share, use) in held {
            slowDeliveries[share.lane, default: 0] += use.deliveries.slow
            let (jobs, deliveries) = (rules.prefetch[share.lane] ?? 1, rules.deliveries[share.lane] ?? 1)
            if use.isMost(of: jobs, \.jobs) || use.isMost(of: deliveries, \.deliveries) { crowding.insert(share) }
        }
    }

    private func device(_ index: Int, of job: JobInProgress) -> ThrottledDevices.Device {
        let delivery = job.job.deliveries[index]
        return ThrottledDevices.Device(app: job.app, environment: delivery.environment, token: delivery.token)
    }
}

/// How much of a lane an app has at work, and how much of that its pool has had for long.
private struct LaneUse {
    struct Amount {
        var all = 0
        var slow = 0
    }

    private(set) var jobs = Amount()
    private(set) var deliveries = Amount()

    mutating func add(deliveries count: Int, isSlow: Bool) {
        jobs.all += 1
        deliveries.all += count
        guard isSlow else { return }
        jobs.slow += 1
        deliveries.slow += count
    }

    /// Half of what the lane may have, and half of that is slow.
    func isMost(of limit: Int, _ amount: KeyPath<LaneUse, Amount>) -> Bool {
        let half = max(1, limit / 2)
        return self[keyPath: amount].all >= half && self[keyPath: amount].slow * 2 >= half
    }
}

/// What one app holds of one lane.
struct LaneShare: Hashable {
    let lane: Lane
    let app: ControlState.AppIndex
}
