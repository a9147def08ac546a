import Postgres
import PushModel
import TokenServiceApps

/// Rule 5 of `docs/registration.md` for a user with more other installations than one transaction should end: an app that was switched from
/// `multi` to `single` may leave tens of thousands.
///
/// Signs them out before the registration itself, which supersedes them anyway. Each page is a transaction whose fences are published, and
/// a repeated call finds fewer. Every page checks the registration, so that a refused one changes nothing. If the reason to refuse it
/// arises between the last page and the registration, the others are signed out all the same.
struct Supersession: Sendable {
    /// Installations in one transaction.
    private static let page = 100
    /// Others that the users of one batch of registrations may have together.
    private static let maximumOfBatch = 1000

    let pool: PostgresPool
    let fences: FencePublisher

    /// The requests that supersede too many, in their order. Costs nothing if no app has the single policy.
    static func excessive(among requests: [RegistryRequest], in pool: PostgresPool) async throws -> [Int] {
        guard requests.contains(where: { $0.onlyInstallationOf != nil }) else { return [] }
        return try await pool.session { session in try excessive(among: requests, in: session) }
    }

    static func excessive(among requests: [RegistryRequest], in session: PostgresSession) throws -> [Int] {
        let superseding = requests.enumerated().compactMap { index, request in
            request.onlyInstallationOf.map { (index, request.app.id, $0) }
        }
        guard !superseding.isEmpty else { return [] }
        let crowds = try session.execute(
            """
            SELECT u.index, c.owned
            FROM unnest(\(superseding.map(\.0))::bigint[], \(superseding.map(\.1))::bigint[], \(superseding.map(\.2))::text[])
                AS u (index, app_id, owner)
            CROSS JOIN LATERAL (
                SELECT count(*) AS owned FROM (
                    SELECT FROM installations WHERE app_id = u.app_id AND owner = u.owner LIMIT \(page + 2)
                ) AS few
            ) AS c
            WHERE c.owned > 1 ORDER BY u.index
            """)
        var total = 0
        return try crowds.compactMap { crowd in
            let owned: Int = try crowd["owned"]
            total += owned
            return owned > page + 1 || total > maximumOfBatch ? try crowd["index"] : nil
        }
    }

    /// Signs out all other installations of the user that a request names.
    /// - Throws: The reason to refuse the request (``RegistryBatch/apply(_:of:)``); `PostgresError`.
    /// - Returns: whether every dispatcher can know of it.
    func signOutOthers(for request: RegistryRequest) async throws -> FenceState {
        guard let user = request.onlyInstallationOf else { return .none }
        var state = FenceState.none
        while true {
            let open = try await pool.registryTransaction { session in
                try Self.endPage(of: user, for: request, in: session)
            }
            guard let open else { return state }
            // Waits only once for a broker that does not answer; the relay publishes the rest.
            if state != .pending { state = state.combined(with: await fences.publish(open)) }
        }
    }

    /// - Returns: the fences, or nil if there is nothing left to do.
    private static func endPage(of user: String, for request: RegistryRequest, in session: PostgresSession) throws -> [Fence]? {
        let (app, successor) = (request.app, request.installation.id)
        let names = RegistryLock.keys(app: app.id, installations: [successor], users: [user])
        try session.execute(RegistryLock.query(names))
        let others = try InstallationStore(session: session, app: app).installations(ownedBy: user, after: .lowest, limit: page + 1)
            .filter { $0 != successor }.prefix(page)
        guard !others.isEmpty else { return nil }
        let needs = RegistryStore.Needs(app: app.id, installations: others + [successor], signOuts: request.signOuts)
        return try RegistryStore(session: session).commit(.supersede(before: request.change), of: app, reading: needs).fences
    }
}

/// The change would supersede more installations than its transaction should: sign them out first (``Supersession``).
struct SupersedesTooMany: Error {}
