import Postgres
import PushModel
import TokenServiceRegistry
import TokenServiceSending

/// The Live Activities and channels whose updates a batch of outcomes is about. When an update has its outcomes, the next one's turn comes.
struct UpdateTurns {
    private var targets: [UpdateTarget.Key: UpdateTarget]
    private let keys: [PushID: UpdateTarget.Key]
    private let session: PostgresSession

    /// Locks them, before any job or notification.
    init(of origins: [PushID: OutcomeStore.Origin], in session: PostgresSession) throws {
        keys = origins.compactMapValues(\.updates)
        targets = keys.isEmpty ? [:] : try UpdateTargetStore(session: session).lock(keys.values)
        self.session = session
    }

    /// - Parameters:
    ///   - completed: Notifications that have all their outcomes now.
    ///   - retried: Deliveries that are sent again later.
    /// - Returns: how many updates may go next, and how many a newer one replaced.
    mutating func note(completed: [PushID], retried: [OutcomeBatch.Entry]) throws -> (released: Int, superseded: Int) {
        guard !targets.isEmpty else { return (0, 0) }
        var (released, superseded): ([PushID], [PushID]) = ([], [])
        var changed: Set<UpdateTarget.Key> = []
        for notification in completed {
            guard let key = keys[notification], let next = change(key, &changed, { $0.line.settled(notification) }) else { continue }
            released.append(next)
        }
        for notification in Set(retried.map(\.delivery.notification)).sorted() {
            guard let key = keys[notification],
                let next = change(key, &changed, { $0.failed(notification, superseded: &superseded) })
            else { continue }
            released.append(next)
        }
        let rows = changed.sorted().compactMap { targets[$0] }
        let queries = CancellationOutbox.supersede(superseded) + ActivityStore.release(released) + UpdateTargetStore.save(rows)
        if !queries.isEmpty { _ = try session.pipeline(queries) }
        return (released.count, superseded.count)
    }

    private mutating func change(
        _ key: UpdateTarget.Key, _ changed: inout Set<UpdateTarget.Key>, _ change: (inout UpdateTarget) -> PushID?
    ) -> PushID? {
        guard var target = targets[key] else { return nil }
        let next = change(&target)
        if target != targets[key] {
            targets[key] = target
            changed.insert(key)
        }
        return next
    }
}
