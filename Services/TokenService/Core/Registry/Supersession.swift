import Postgres
import PushModel

/// Rule 5 of DESIGN.md section 3 for a user with more other installations than one transaction should end: those of an app that was
/// switched from `multi` to `single` may be tens of thousands.
///
/// They are signed out before the registration itself runs, page by page, each page a transaction whose fences are published: the
/// registration is going to supersede them anyway, and whoever repeats one that was cut short finds fewer. What a registration would be
/// refused for is looked at in every page, so that a refused one changes nothing; only where the reason comes up between the last page
/// and the registration are the others signed out all the same.
struct Supersession: Sendable {
    /// Installations in one transaction.
    private static let page = 100
    /// Others that the users of one batch of registrations may have together.
    private static let maximumOfBatch = 1000

    let pool: PostgresPool
    let fences: FencePublisher

    /// The changes that supersede too many, in their order. Costs nothing where no app has the single policy.
    static func excessive(among changes: [RegistryChange], in pool: PostgresPool) async throws -> [Int] {
        guard changes.contains(where: { $0.onlyInstallationOf != nil }) else { return [] }
        return try await pool.session { session in try excessive(among: changes, in: session) }
    }

    static func excessive(among changes: [RegistryChange], in session: PostgresSession) throws -> [Int] {
        let superseding = changes.enumerated().compactMap { index, change in change.onlyInstallationOf.map { (index, change.app.id, $0) } }
        guard !superseding.isEmpty else { return [] }
        let parameters: [PostgresValue] = [
            .int64Array(superseding.map(\.1)), .textArray(superseding.map(\.2)), .int64(Int64(page) + 2),
        ]
        let counts = try session.execute(crowds, parameters).map { row in (number: Int(try row.int64(0)), count: Int(try row.int64(1))) }
        var total = 0
        return counts.compactMap { crowd in
            total += crowd.count
            return crowd.count > page + 1 || total > maximumOfBatch ? superseding[crowd.number - 1].0 : nil
        }
    }

    /// Signs out all other installations of the user that a change names.
    /// - Throws: What the change is refused for (``RegistryBatch/apply(_:)``); `PostgresError`.
    /// - Returns: whether every dispatcher can know of it.
    func signOutOthers(for change: RegistryChange) async throws -> FenceState {
        guard let user = change.onlyInstallationOf else { return .none }
        var state = FenceState.none
        while true {
            let open = try await pool.transaction { session in
                try Self.endPage(of: user, for: change, in: InstallationStore(session: session, app: change.app))
            }
            guard let open else { return state }
            // A broker that does not answer is waited for once; the relay publishes the rest.
            if state != .pending { state = state.combined(with: await fences.publish(open)) }
        }
    }

    /// - Returns: the fences, or nil where nothing is left to do.
    private static func endPage(of user: String, for change: RegistryChange, in store: InstallationStore) throws -> [Fence]? {
        let successor = change.installation.id
        var lock = RegistryLock(app: store.app.id)
        lock.add(user: user)
        lock.add(installation: successor)
        try lock.take(in: store.session)
        let others = try store.installations(ownedBy: user, after: .lowest, limit: page + 1).filter { $0 != successor }.prefix(page)
        guard !others.isEmpty else { return nil }
        let rows = try store.lockInstallations(others + [successor])
        try check(change, now: rows[successor], in: store)
        // Whoever signs one of them out, or in as somebody else, does not have the user's name.
        let ended = others.filter { rows[$0]?.owner.hasSameBytes(as: user) == true }
        guard !ended.isEmpty else { return [] }
        let now = try store.clock()
        try store.signOut(ended, reason: .superseded)
        try HistoryStore(session: store.session).append(
            ended.compactMap { rows[$0] }.map { row in
                var entry = HistoryEntry(app: store.app.id, installation: row.id, event: .signedOut, at: now)
                entry.owner = row.owner
                entry.ownerEpoch = row.epoch
                entry.reason = SignOutReason.superseded.rawValue
                entry.otherInstallation = successor
                return entry
            })
        return try store.unpublishedFences(of: store.fence(ended, at: now))
    }

    /// As ``RegistryBatch/apply(_:)`` will ask.
    private static func check(_ change: RegistryChange, now row: InstallationRow?, in store: InstallationStore) throws {
        let (expected, precondition, mustExist) =
            switch change.content {
            case .registration(let registration): (registration.expectedOwner, registration.precondition, false)
            case .patch(let patch): (patch.expectedOwner, patch.precondition, true)
            }
        guard !mustExist || row?.isRegistered == true else { throw NotRegistered() }
        guard expected.allows(row?.owner) else { throw OwnerMismatch() }
        guard precondition != .none else { return }
        let etag = try store.records([change.installation.id]).first?.etag
        guard precondition.allows(etag) else { throw PreconditionFailed() }
    }

    private static let crowds: PostgresStatement = """
        SELECT u.number, c.owned FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS u (app_id, owner, number)
        CROSS JOIN LATERAL (
            SELECT count(*) AS owned FROM (
                SELECT FROM installations WHERE app_id = u.app_id AND owner = u.owner LIMIT $3
            ) AS few
        ) AS c
        WHERE c.owned > 1 ORDER BY u.number
        """
}

/// The change would supersede more installations than its transaction should: sign them out first (``Supersession``).
struct SupersedesTooMany: Error {}
