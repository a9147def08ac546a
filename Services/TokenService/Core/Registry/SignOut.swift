package import Postgres
package import PushModel

/// Logout and deregistration (DESIGN.md section 3, rule 7): idempotent, and never refused because there is nothing to do.
package struct SignOut: Sendable {
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
        try await commit(app) { store in
            var lock = RegistryLock(app: app.id)
            lock.add(installation: installation)
            try lock.take(in: store.session)
            let rows = try store.lockInstallations([installation])
            try Self.check(expected, of: [installation], among: rows)
            return try Self.end([installation], among: rows, in: store)
        }
    }

    /// Signs out whoever holds a token, for clients that know nothing else.
    /// - Throws: ``OwnerMismatch`` where somebody else than expected is signed in at one of them.
    package func logOut(token: DeviceToken, environment: APNsEnvironment?, expected: ExpectedOwner, app: App) async throws -> Result {
        try await commit(app) { store in
            var lock = RegistryLock(app: app.id)
            lock.add(token: token)
            try lock.take(in: store.session)
            let rows = try store.lockInstallations(store.holders(of: token, environment: environment))
            // Again, now that nobody can change it: an erasure deletes tokens without having their names.
            let holders = try store.holders(of: token, environment: environment)
            try Self.check(expected, of: holders, among: rows)
            return try Self.end(holders, among: rows, in: store)
        }
    }

    /// Signs out, retires the tokens and forgets what the installation told.
    /// - Throws: ``OwnerMismatch`` where somebody else than expected is signed in; nobody is always right.
    package func deregister(_ installation: PushID, expected: ExpectedOwner, app: App) async throws {
        _ = try await commit(app) { store in
            var lock = RegistryLock(app: app.id)
            lock.add(installation: installation)
            try lock.take(in: store.session)
            return try Self.deregister([installation], expected: expected, in: store)
        }
    }

    /// Deregisters whoever has a token alive, for clients that know nothing else. A token that was replaced since says nothing about
    /// the installation any more.
    /// - Throws: ``OwnerMismatch`` where somebody else than expected is signed in at one of them.
    package func deregister(token: DeviceToken, environment: APNsEnvironment?, expected: ExpectedOwner, app: App) async throws {
        _ = try await commit(app) { store in
            var lock = RegistryLock(app: app.id)
            lock.add(token: token)
            try lock.take(in: store.session)
            _ = try store.lockInstallations(store.holders(of: token, environment: environment))
            // Only now, and with the token's own row: a registration that does not name it, or a verdict, may have retired it meanwhile.
            return try Self.deregister(store.lockActiveHolders(of: token, environment: environment), expected: expected, in: store)
        }
    }

    /// A late request must not undo a newer one (rule 8). That nobody is signed in is all that a sign-out wants.
    private static func check(_ expected: ExpectedOwner, of installations: [PushID], among rows: [PushID: InstallationRow]) throws {
        for owner in installations.compactMap({ rows[$0]?.owner }) where !expected.allows(owner) { throw OwnerMismatch() }
    }

    private static func deregister(
        _ installations: [PushID], expected: ExpectedOwner, in store: InstallationStore
    ) throws -> Committed {
        let rows = try store.lockInstallations(installations)
        try check(expected, of: installations, among: rows)
        let registered = installations.filter { rows[$0]?.isRegistered == true }
        guard !registered.isEmpty else { return try end([], among: rows, in: store) }
        let now = try store.clock()
        for installation in registered { try store.deregister(installation, at: now) }
        try store.tell(.deregistered, of: registered.compactMap { rows[$0] }, at: now)
        let fenced = try store.fence(registered, at: now)
        return Committed(installation: registered.first, ended: registered, epoch: 0, fenced: fenced)
    }

    struct Committed: Sendable {
        var installation: PushID?
        var ended: [PushID]
        var epoch: Int64
        /// Whose fences the answer waits for.
        var fenced: [PushID]
    }

    static func end(
        _ installations: [PushID], among rows: [PushID: InstallationRow], in store: InstallationStore
    ) throws -> Committed {
        let signedIn = installations.filter { rows[$0]?.owner != nil }
        var fenced: [PushID] = []
        if !signedIn.isEmpty {
            let now = try store.clock()
            try store.signOut(signedIn, reason: .logout)
            try store.tell(.signedOut, of: signedIn.compactMap { rows[$0] }, reason: .logout, at: now)
            fenced = try store.fence(signedIn, at: now)
        }
        let shown = signedIn.first ?? installations.first
        let epoch = shown.flatMap { rows[$0]?.epoch } ?? 0
        return Committed(
            installation: shown, ended: signedIn, epoch: signedIn.isEmpty ? epoch : epoch + 1, fenced: fenced + installations)
    }

    private func commit(
        _ app: App, _ change: @escaping @Sendable (InstallationStore) throws -> Committed
    ) async throws -> Result {
        let (committed, open, state) = try await pool.transaction { session in
            let store = InstallationStore(session: session, app: app)
            let committed = try change(store)
            let open = try store.unpublishedFences(of: committed.fenced)
            let state = try committed.installation.flatMap { try store.records([$0]).first?.fence }
            return (committed, open, state ?? .none)
        }
        let published = await fences.publish(open)
        return Result(
            installation: committed.installation, signedOut: !committed.ended.isEmpty, ownerEpoch: committed.epoch,
            fence: state.settled(by: published), count: committed.ended.count)
    }
}
