import Broker
import Observability
import Postgres

/// Whether this process should get requests: only what a restart or another process could help with. A broker that is away does not count,
/// and neither does a backlog: accepted notifications wait in the database, and each app and lane has its own limit.
struct ServiceReadiness: Sendable {
    let pool: PostgresPool
    let publisher: Publisher
    let control: Publisher
    let startup: Startup

    func check() async -> Readiness {
        let isHealthy = await pool.isHealthy()
        var started = Readiness.Check("startup", isOK: true, "done")
        if case .waiting(let reason) = startup.progress { started = .init("startup", isOK: false, reason) }
        return Readiness([
            .init("database", isOK: isHealthy, isHealthy ? "answers" : "does not answer"),
            started,
            .init("broker", isOK: true, "\(publisher.state)"),
            .init("broker.control", isOK: true, "\(control.state)"),
        ])
    }
}
