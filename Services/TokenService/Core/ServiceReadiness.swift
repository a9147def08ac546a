import Broker
import Observability
import Postgres

/// Whether this process should get requests. A broker that is away does not count: accepted notifications wait in the database meanwhile.
struct ServiceReadiness: Sendable {
    let pool: PostgresPool
    let publisher: Publisher
    let control: Publisher
    let startup: Startup
    let backlog: PublishBacklog

    func check() async -> Readiness {
        let isHealthy = await pool.isHealthy()
        let count = backlog.count
        var started = Readiness.Check("startup", isOK: true, "done")
        if case .waiting(let reason) = startup.progress { started = .init("startup", isOK: false, reason) }
        return Readiness([
            .init("database", isOK: isHealthy, isHealthy ? "answers" : "does not answer"),
            started,
            .init("broker", isOK: true, "\(publisher.state)"),
            .init("broker.control", isOK: true, "\(control.state)"),
            .init("backlog", isOK: count < backlog.limit, "\(count) of \(backlog.limit) notifications wait to be published"),
        ])
    }
}
