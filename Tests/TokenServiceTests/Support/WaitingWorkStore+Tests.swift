import Postgres
import PushModel

@testable import TokenServiceSending

extension JobStore {
    /// Takes over jobs of all apps, as a relay does that knows nothing.
    func claimFree(_ count: Int, of lane: Lane, leaseSeconds: Double) throws -> [JobID] {
        let waiting = try WaitingWorkStore(session: session).waitingJobs().found.filter { $0.key.lane == lane }
        return try claim(count, of: lane, among: waiting.map { .init(app: $0.app, from: 0) }, leaseSeconds: leaseSeconds)
    }
}

extension WaitingWorkStore {
    func backlogOfAll(limit: Int, leaseSeconds: Double) throws -> [AppLane: Int] {
        let apps: [AppSlug] = try session.execute("SELECT slug FROM apps ORDER BY id").column("slug")
        var sizes: [AppLane: Int] = [:]
        for key in apps.flatMap({ app in Lane.allCases.map { AppLane(app: app, lane: $0) } }) {
            let size = try backlog(of: key, limit: limit, leaseSeconds: leaseSeconds)
            if size > 0 { sizes[key] = size }
        }
        return sizes
    }
}

extension CancellationOutbox {
    /// One step for all notifications that have jobs to hasten.
    func hastenAll(limit: Int) throws -> Bool { try hasten(try unhastened(limit: 1000), limit: limit) }
}
