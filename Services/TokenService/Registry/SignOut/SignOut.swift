package import Postgres
package import PushModel
package import TokenServiceApps

/// Logout and deregistration (`docs/registration.md`, rule 7): idempotent, and never refused for lack of an effect. One without an effect
/// is kept in mind, also if it is refused (``SignOutMoments``).
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
    /// - Throws: ``OwnerMismatch`` if another user than expected is signed in; an installation without a user never conflicts.
    package func logOut(_ installation: PushID, expected: ExpectedOwner, app: App) async throws -> Result {
        try await commit(.signOut(.installation(installation), expecting: expected), app)
    }

    /// Signs out the holders of a token, for clients that know nothing else.
    /// - Throws: ``OwnerMismatch`` if another user than expected is signed in at one of them.
    package func logOut(token: DeviceToken, environment: APNsEnvironment?, expected: ExpectedOwner, app: App) async throws -> Result {
        try await commit(.signOut(.token(token, environment), expecting: expected), app)
    }

    /// Signs out, retires the tokens and removes the device's data.
    /// - Throws: ``OwnerMismatch`` if another user than expected is signed in; an installation without a user never conflicts.
    package func deregister(_ installation: PushID, expected: ExpectedOwner, app: App) async throws {
        _ = try await commit(.deregister(.installation(installation), expecting: expected), app)
    }

    /// Deregisters the installations at which a token is active, for clients that know nothing else. A token that was replaced since
    /// identifies the installation no longer.
    /// - Throws: ``OwnerMismatch`` if another user than expected is signed in at one of them.
    package func deregister(token: DeviceToken, environment: APNsEnvironment?, expected: ExpectedOwner, app: App) async throws {
        _ = try await commit(.deregister(.token(token, environment), expecting: expected), app)
    }

    private func commit(_ change: RegistryChange, _ app: App) async throws -> Result {
        let committed = try await pool.registryTransaction { session in try RegistryStore(session: session).commit(change, of: app) }
        if let refusal = committed.refusal { throw refusal }
        let published = await fences.publish(committed.fences)
        let shown = committed.shown
        return Result(
            installation: shown?.key.id, signedOut: !committed.installations.isEmpty, ownerEpoch: shown?.epoch ?? 0,
            fence: (shown?.isRegistered == true ? shown?.fence ?? .none : .none).narrowed(by: published),
            count: committed.installations.count)
    }

    /// Signs a user out everywhere, or everywhere but at `except`: page by page, each a transaction of its own, so that no user has too
    /// many installations. A repeated call also publishes fences that an earlier call or another change left open.
    package func logOut(user: String, except: PushID?, app: App) async throws -> Result {
        var result = Result(installation: nil, signedOut: false, ownerEpoch: 0, fence: .none, count: 0)
        var cursor: PushID? = .lowest
        var published: Set<Int64> = []
        while let from = cursor {
            let isFirst = from == .lowest
            let page = try await pool.registryTransaction { session in
                // With the first page: credentials that are made while the other pages follow belong to a new session.
                if isFirst { try RegistryStore(session: session).noteSignOut(of: user, app: app) }
                return try RegistryStore(session: session).commitPage(of: user, after: from, limit: Self.page, app: app) { ids in
                    .signOut(.user(user, among: ids.filter { $0 != except }), expecting: .anyone)
                }
            }
            result.count += page.committed.installations.count
            // Waits only once for a broker that does not answer; the relay publishes the rest.
            if result.fence != .pending {
                result.fence = result.fence.combined(with: await fences.publish(page.committed.fences))
                published.formUnion(page.committed.fences.map(\.id))
            }
            // A user with fewer installations than a page, as nearly every user, is signed out at one moment: another page would also end
            // later sign-ins.
            cursor = page.next
        }
        result.signedOut = result.count > 0
        if result.fence != .pending {
            let open = try await pool.session { session in try InstallationStore(session: session, app: app).openFences(of: user) }
            // A confirmed fence is recorded as published only a little later.
            result.fence = result.fence.combined(with: await fences.publish(open.filter { !published.contains($0.id) }))
        }
        return result
    }
}
