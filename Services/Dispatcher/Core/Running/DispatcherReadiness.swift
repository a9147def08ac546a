import APNs
import Broker
import Observability
import PushModel
import SystemIO

/// Ready: jobs flow from the broker to the pools. One pool that is not ready concerns another app: it is shown, and changes nothing.
struct DispatcherReadiness: Sendable {
    let loop: CoreLoop
    let publisher: Publisher
    let jobs: [Lane: Consumer]
    let commands: Consumer
    let pools: PoolTable
    let credentials: CredentialKeeper

    func check() -> Readiness {
        let status = loop.status
        let pools = pools.views().compactMap { view in
            view.state.map { state in
                let proof = view.isProven ? "" : ", not proven yet"
                return Readiness.Check(
                    "apns.\(view.place.credential).\(view.place.environment.rawValue)" + Self.suffix(view.place.service), isOK: true,
                    Self.text(state) + proof)
            }
        }
        return Readiness(
            [
                Readiness.Check("process", isOK: !status.isStopping, status.isStopping ? "stopping" : "running"),
                Readiness.Check("broker.publisher", isOK: publisher.state == .ready, "\(publisher.state)"),
                // One lane's queue may be dead: the others' jobs flow.
                Readiness.Check("broker.jobs", isOK: jobs.values.contains(where: \.isConnected), Self.text(jobs)),
                // Jobs flow without it.
                Readiness.Check("broker.commands", isOK: true, commands.isConnected ? "consuming" : "not consuming"),
                Readiness.Check("credentials", isOK: true, Self.text(credentials.standing)),
                Readiness.Check("control", isOK: status.control == .current, Self.text(status.control)),
                Readiness.Check("outcomes", isOK: status.outcomesRefusedSince == nil, Self.text(refusedSince: status.outcomesRefusedSince)),
            ] + pools)
    }

    private static func text(_ jobs: [Lane: Consumer]) -> String {
        let away = Lane.allCases.filter { jobs[$0]?.isConnected == false }.map(\.rawValue)
        return away.isEmpty ? "consuming" : "not consuming: " + away.joined(separator: ", ")
    }

    private static func suffix(_ service: APNsService) -> String { service == .device ? "" : ".\(service.rawValue)" }

    private static func text(_ standing: ControlPosition) -> String {
        switch standing {
        case .disconnected: "not connected"
        case .catchingUp: "reading"
        case .current: "read to the end"
        }
    }

    private static func text(refusedSince since: Int64?) -> String {
        since.map { "refused by the broker for \(max(0, WallClock.milliseconds() - $0) / 1000) s" } ?? "taken"
    }

    private static func text(_ standing: CredentialKeeper.Standing) -> String {
        switch standing {
        case .current: "as in the files"
        case .changing: "the files are changing"
        case .refused(let why): "the changed files are not used: \(why)"
        }
    }

    private static func text(_ state: APNsPoolState) -> String {
        switch state {
        case .paused(let reason): "paused: APNs says \(reason)"
        case .unavailable(let reason): "unavailable: APNs says \(reason)"
        case .connecting, .ready, .idle, .closed: state.label
        }
    }
}
