import ChaosLedger
import PushModel

/// Judges Live Activities: the order of their pushes, the ends that the platform makes by itself, and the lock screens at the end.
extension Checker {
    static let activityTopic = ".push-type.liveactivity"

    /// - Parameter token: Any token of a device. The device's own stands for all of them.
    func device(of token: Int32) -> Int32 { activities.device(of: token) }

    private func changes(of activity: ActivityBook.Key) -> [SendBook.Send] { (activities.changes[activity] ?? []).map { sends[$0] } }

    /// Whether a newer state of its activity may have been accepted.
    func mayBeReplaced(_ send: SendBook.Send) -> Bool {
        guard let change = send.activity else { return false }
        return changes(of: change.activity).contains { other in
            other.marker != send.marker && other.mayBeAccepted && other.activity?.timestamp ?? 0 >= change.timestamp
        }
    }

    /// Whether the activity's update token there may have been over before the delivery: the app reported another one, or a dismissal.
    func mayHaveLostToken(of send: SendBook.Send, at installation: PushID) -> Bool {
        guard let change = send.activity else { return false }
        let screen = ActivityBook.Screen(activity: change.activity, installation: installation)
        return activities.swiped.contains(screen) || activities.reports[screen]?.contains { $0 >= send.sentAt } ?? false
    }

    /// Whether a device may have got another update token since, so that all devices get the state again.
    func mayBeRepeated(_ send: SendBook.Send) -> Bool {
        guard let change = send.activity, change.event == .update else { return false }
        return activities.lastReport[change.activity] ?? .min >= send.sentAt
    }

    // MARK: Pushes

    /// A state must not come after a newer one. APNs may get a push again whose fate its sender did not learn.
    mutating func judgeOrder(_ push: Push, _ token: Int32, _ send: SendBook.Send) {
        guard let change = send.activity, let screen = activities.screens[token] else { return }
        let newest = activities.newest[screen] ?? .min
        if push.fate == .accepted { activities.newest[screen] = max(newest, change.timestamp) }
        guard change.timestamp < newest else { return }
        let attempts = pushLog.delivery(push.id).map { pushLog.attempts(of: $0) } ?? []
        guard attempts.count(where: \.fate.mayHaveArrived) == 1 else { return }
        verdict.find(
            .overtaken,
            """
            \(describe(push)): timestamp \(change.timestamp) of \(change.activity.id), which had got \(newest); \
            \(faults.names(in: send.sentAt...push.time))
            """
        )
    }

    /// An end that the platform makes by itself: the activity's user has left the device, or the activity is over.
    mutating func judgeClearing(_ push: Push, _ token: Int32) {
        verdict.figures.clearings += 1
        guard let screen = activities.screens[token], let start = changes(of: screen.activity).first else {
            return verdict.find(.phantom, "\(describe(push)): no request has started an activity with that token")
        }
        let mayBeEnded = changes(of: screen.activity).contains { send in
            send.activity?.event == .end && send.mayBeAccepted && send.sentAt <= push.time
        }
        guard !mayBeEnded, isCertain(start, on: screen, until: push.time) else { return }
        verdict.find(.phantom, "\(describe(push)): ends \(screen.activity.id) though its user \(names.name(start.user)) has not left")
    }

    /// Whether the user certainly had the device all the time, and every other one that has the activity. When the last device that has
    /// reported a token is left, the activity is over on the others too.
    private func isCertain(_ start: SendBook.Send, on screen: ActivityBook.Screen, until end: Int64) -> Bool {
        let certain = Set(owners.certainTokens(of: start.user, from: start.sentAt, to: end).map(\.installation))
        let others = activities.reports.keys.filter { $0.activity == screen.activity }
        return !activities.dismissed.contains(screen.activity) && certain.isSuperset(of: others.map(\.installation) + [screen.installation])
    }

    // MARK: Lock screens

    mutating func judge(_ shown: ShownRecord) {
        guard let app = names.app(shown.app) else { return }
        verdict.notJudged.subtract([.overtaken, .lockScreens])
        let screen = ActivityBook.Screen(
            activity: ActivityBook.Key(app: app, id: shown.activity), installation: shown.installation)
        let name = "\(shown.activity) on installation \(shown.installation) (\(shown.state.rawValue), marker \(shown.marker ?? 0))"
        let all = changes(of: screen.activity)
        guard let start = all.first else { return verdict.find(.lockScreens, "\(name): no request has started it") }
        guard let state = all.first(where: { $0.marker == shown.marker })?.activity else {
            return verdict.find(.lockScreens, "\(name): shows what no request has sent to it")
        }
        guard !shown.isSwiped else { return }
        let end = run.drainedAt ?? run.endedAt ?? .max
        let isRunning = shown.state == .active || shown.state == .stale
        if isRunning, let device = activities.device(at: shown.installation),
            case .left(let until, let endedBy) = owners.mayOwn(start.user, device, at: end)
        {
            return verdict.find(
                .afterLogout,
                """
                \(name): left over; the time of user \(names.name(start.user)) was over at \(at(until))\
                \(endedBy.map { " by request \($0)" } ?? "")
                """
            )
        }
        guard isCertain(start, on: screen, until: end), let reports = activities.reports[screen], let reportedAt = reports.min()
        else { return }
        // If the app reports a token after the end was accepted, the platform may remove the activity and not show the end's state.
        let endedAt = all.filter { $0.activity?.event == .end && $0.mayBeAccepted }.map(\.sentAt).min() ?? .max
        if shown.state == .dismissed, reports.contains(where: { $0 >= endedAt }) {
            verdict.figures.removed += 1
            return
        }
        verdict.figures.lockScreens += 1
        judge(name, all.filter { !isLate($0, for: reportedAt) }, shows: state, isRunning: isRunning)
    }

    /// Whether it may have expired before the device had an update token.
    private func isLate(_ send: SendBook.Send, for reportedAt: Int64) -> Bool {
        send.state == .expired && send.expiresAt ?? .max < reportedAt + run.recovery
    }

    /// The user never left the device, so it shows the newest state that was accepted.
    private mutating func judge(_ name: String, _ all: [SendBook.Send], shows state: ActivityBook.Change, isRunning: Bool) {
        let ends = all.filter { $0.activity?.event == .end }
        // After an end, nothing but another end counts.
        let firstEnd = ends.filter(\.mayBeAccepted).map(\.sentAt).min() ?? .max
        let certain = all.filter { send in
            guard let acceptedAt = send.acceptedAt else { return false }
            return send.activity?.event == .end || acceptedAt < firstEnd
        }
        if isRunning, let lost = ends.first(where: { $0.acceptedAt != nil }) {
            return verdict.find(.lockScreens, "\(name): goes on, and its end was accepted (\(describe(lost)))")
        }
        if !isRunning, firstEnd == .max { return verdict.find(.lockScreens, "\(name): is over, and no request has ended it") }
        guard let newest = certain.max(by: { $0.activity?.timestamp ?? 0 < $1.activity?.timestamp ?? 0 }),
            let timestamp = newest.activity?.timestamp, state.timestamp < timestamp
        else { return }
        verdict.find(.lockScreens, "\(name): shows timestamp \(state.timestamp), and a newer state was accepted (\(describe(newest)))")
    }

    private func describe(_ send: SendBook.Send) -> String {
        let pushes = pushLog.deliveries(from: send.firstDelivery).map { delivery in
            let attempts = pushLog.attempts(of: delivery).reversed().map { "\(at($0.time)) \($0.fate)" }
            return "\(names.hint(delivery.token)): \(attempts.joined(separator: ", "))"
        }
        let timestamp = send.activity?.timestamp ?? 0
        return """
            marker \(send.marker), timestamp \(timestamp), request \(send.request) of \(at(send.sentAt)), \
            \(send.state?.rawValue ?? "unknown"), pushes \(pushes.isEmpty ? "none" : pushes.joined(separator: "; "))
            """
    }
}
