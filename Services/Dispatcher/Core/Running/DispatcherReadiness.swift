import APNs
import Broker
import Observability
import PushModel

/// Ready: jobs flow from the broker to the pools. A pool that is not, is another app's business: it shows, and changes nothing.
struct DispatcherReadiness: Sendable {
    let loop: CoreLoop
    let publisher: Publisher
    let jobs: Consumer
    let pools: [APNsPool]

    func check() -> Readiness {
        let status = loop.status
        let pools = pools.map { pool in
            Readiness.Check("apns.\(pool.credential).\(pool.environment.rawValue)", isOK: true, Self.text(pool.state))
        }
        return Readiness(
            [
                Readiness.Check("process", isOK: !status.isStopping, status.isStopping ? "stopping" : "running"),
                Readiness.Check("broker.publisher", isOK: publisher.state == .ready, "\(publisher.state)"),
                Readiness.Check("broker.jobs", isOK: jobs.isConnected, jobs.isConnected ? "consuming" : "not consuming"),
                Readiness.Check("control", isOK: status.control == .current, Self.text(status.control)),
            ] + pools)
    }

    private static func text(_ standing: ControlStanding) -> String {
        switch standing {
        case .disconnected: "not connected"
        case .catchingUp: "reading"
        case .current: "read to the end"
        }
    }

    private static func text(_ state: APNsPoolState) -> String {
        if case .paused(let reason) = state { "paused: APNs says \(reason)" } else { state.label }
    }
}
