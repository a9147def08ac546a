import Postgres
import PushModel

/// The Live Activities whose updates a batch of outcomes is about. When an update has its outcomes, the next one's turn comes.
struct ActivityTurns {
    private var activities: [LiveActivity.Key: LiveActivity]
    private let keys: [PushID: LiveActivity.Key]
    private let session: PostgresSession

    /// Locks them, before any job or notification.
    init(of origins: [PushID: OutcomeStore.Origin], in session: PostgresSession) throws {
        keys = origins.compactMapValues(\.activity)
        activities = keys.isEmpty ? [:] : try ActivityStore(session: session).lock(keys.values)
        self.session = session
    }

    /// - Parameters:
    ///   - completed: Notifications that have all their outcomes now.
    ///   - retried: Deliveries that are sent again later.
    /// - Returns: how many updates may go next.
    mutating func note(completed: [PushID], retried: [OutcomeBatch.Entry]) throws -> Int {
        guard !activities.isEmpty else { return 0 }
        var (released, superseded): ([PushID], [PushID]) = ([], [])
        var changed: Set<LiveActivity.Key> = []
        for notification in completed {
            guard let key = keys[notification], let next = change(key, &changed, { $0.settled(notification) }) else { continue }
            released.append(next)
        }
        for notification in Set(retried.map(\.delivery.notification)).sorted() {
            guard let key = keys[notification],
                let next = change(key, &changed, { $0.failed(notification, superseded: &superseded) })
            else { continue }
            released.append(next)
        }
        let rows = changed.sorted().compactMap { activities[$0] }
        let queries = CancellationStore.supersede(superseded) + ActivityStore.release(released) + ActivityStore.save(rows)
        if !queries.isEmpty { _ = try session.pipeline(queries) }
        return released.count
    }

    private mutating func change(
        _ key: LiveActivity.Key, _ changed: inout Set<LiveActivity.Key>, _ change: (inout LiveActivity) -> PushID?
    ) -> PushID? {
        guard var activity = activities[key] else { return nil }
        let next = change(&activity)
        if activity != activities[key] {
            activities[key] = activity
            changed.insert(key)
        }
        return next
    }
}
