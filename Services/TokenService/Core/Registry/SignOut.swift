package import Postgres
package import PushModel

/// Logout and deregistration (`docs/registration.md`, rule 7): idempotent, and never refused because there is nothing to do.
package struct SignOut: Sendable {
    /// A user's installations in one transaction.
    private static let page = 100

    let pool: PostgresPool
    let fences: FencePublisher

    package init(pool: PostgresPool, fences: FencePublisher) {
        self.pool = pool
        self.fences = fences
    }

    package struct Result: Sendable {
        /// Nil where a token named no installation.
        package var installation: PushID?
        package var signedOut: Bool
        package var ownerEpoch: Int64
        package var fence: FenceState
        /// How many installations were signed out.
        package var count: Int
    }

    /// Signs one installation out.
    /// - Throws: ``OwnerMismatch`` where somebody else than expected is signed in; nobody is always right.
    package func logOut(_ installation: PushID, expected: ExpectedOwner, app: App) async throws -> Result {
        try await settle(.signOut(.installation(installation), expecting: expected), app)
    }

    /// Signs out whoever holds a token, for clients that know nothing else.
    /// - Throws: ``OwnerMismatch`` where somebody else than expected is signed in at one of them.
    package func logOut(token: DeviceToken, environment: APNsEnvironment?, expected: ExpectedOwner, app: App) async throws -> Result {
        try await settle(.signOut(.token(token, environment), expecting: expected), app)
    }

    /// Signs out, retires the tokens and forgets what the device reported.
    /// - Throws: ``OwnerMismatch`` where somebody else than expected is signed in; nobody is always right.
    package func deregister(_ installation: PushID, expected: ExpectedOwner, app: App) async throws {
        _ = try await settle(.deregister(.installation(installation), expecting: expected), app)
    }

    /// Deregisters whoever has a token active, for clients that know nothing else. A token that was replaced since no longer identifies the
    /// installation any more.
    /// - Throws: ``OwnerMismatch`` where somebody else than expected is signed in at one of them.
    package func deregister(token: DeviceToken, environment: APNsEnvironment?, expected: ExpectedOwner, app: App) async throws {
        _ = try await settle(.deregister(.token(token, environment), expecting: expected), app)
    }

    private func settle(_ change: RegistryChange, _ app: App) async throws -> Result {
        let committed = try await pool.registryTransaction { session in try RegistryStore(session: session).commit(change, of: app) }
        let published = await fences.publish(committed.fences)
        let shown = committed.shown
        return Result(
            installation: shown?.key.id, signedOut: !committed.installations.isEmpty, ownerEpoch: shown?.epoch ?? 0,
            fence: (shown?.isRegistered == true ? shown?.fence ?? .none : .none).settled(by: published),
            count: committed.installations.count)
    }

    /// Signs a user out everywhere, or everywhere but there: page by page, each a transaction of its own, so that no user has too many
    /// installations. Repeated, it also publishes what an earlier call or another change left open.
    package func logOut(user: String, except: PushID?, app: App) async throws -> Result {
        var result = Result(installation: nil, signedOut: false, ownerEpoch: 0, fence: .none, count: 0)
        var cursor: PushID? = .lowest
        var published: Set<Int64> = []
        while let from = cursor {
            let page = try await pool.registryTransaction { session in
                try RegistryStore(session: session).commitPage(of: user, after: from, limit: Self.page, app: app) { ids in
                    .signOut(.user(user, among: ids.filter { $0 != except }), expecting: .anyone)
                }
            }
            result.count += page.committed.installations.count
            // A broker that does not answer is waited for once; the relay publishes the rest.
            if result.fence != .pending {
                result.fence = result.fence.combined(with: await fences.publish(page.committed.fences))
                published.formUnion(page.committed.fences.map(\.id))
            }
            // Whoever has fewer than a page, nearly everybody, is signed out at one moment: looking further would also end what began since.
            cursor = page.next
        }
        result.signedOut = result.count > 0
        if result.fence != .pending {
            let open = try await pool.session { session in try InstallationStore(session: session, app: app).openFences(of: user) }
            // A fence that was just confirmed is written down as published only a little later.
            result.fence = result.fence.combined(with: await fences.publish(open.filter { !published.contains($0.id) }))
        }
        return result
    }
}
