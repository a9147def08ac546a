package import Postgres
package import PushModel
package import TokenServiceApps

extension PostgresPool {
    /// A transaction of ``RegistryStore``. It runs again if an answer of APNs changed a token between its read and its write.
    @discardableResult
    package func registryTransaction<R: Sendable>(_ body: @escaping @Sendable (PostgresSession) throws -> R) async throws -> R {
        try await session { session in try session.registryTransaction(onAnswer: {}, body) }
    }
}

extension PostgresSession {
    /// - Parameter onAnswer: An answer of APNs came between, and the transaction runs again.
    func registryTransaction<R>(onAnswer: () -> Void, _ body: (PostgresSession) throws -> R) throws -> R {
        // Answers come one batch after another, so they cannot come between a read and its write for ever.
        for _ in 0..<5 {
            do {
                return try retryingTransaction(body)
            } catch is AnswerBetween {
                onAnswer()
            } catch let error as PostgresError where error.code == .sqlState(.uniqueViolation) {
                // An answer corrected a token's environment between the read and the write. The next try reads it.
                onAnswer()
            }
        }
        return try retryingTransaction(body)
    }
}

extension RegistryStore {
    /// One change of some installations, committed.
    package struct Committed: Sendable {
        /// The installations that the change signed out or removed, in ascending order.
        package var installations: [InstallationKey] = []
        /// The first of them; if there is none, the first one that the change named.
        var shown: InstallationState?
        package var tokens = 0
        /// The fences that an answer waits for.
        package var fences: [Fence] = []

        package init(installations: [InstallationKey] = [], shown: InstallationState? = nil, tokens: Int = 0, fences: [Fence] = []) {
            self.installations = installations
            self.shown = shown
            self.tokens = tokens
            self.fences = fences
        }
    }

    /// Signs out or deregisters.
    func commit(_ change: RegistryChange, of app: App) throws -> Committed {
        var scope = Scope(app: app.id, installations: [])
        var target: RegistryChange.Target?
        if case .signOut(let named, _) = change { target = named }
        if case .deregister(let named, _) = change { target = named }
        switch target {
        case .installation(let id): scope.installations = [id]
        case .user(_, let ids): scope.installations = ids
        case .token(let token, _):
            scope.tokens = [token]
            try session.execute(RegistryLock.query(RegistryLock.keys(app: app.id, tokens: [token])))
            // They stay the holders: a change that moves the token needs the lock on its name.
            scope.installations = try session.execute(
                "SELECT DISTINCT installation FROM tokens WHERE app_id = \(app.id) AND token = \(token.bytes)"
            ).column("installation")
        case nil: break
        }
        let names = scope.tokens.isEmpty ? RegistryLock.keys(app: app.id, installations: scope.installations) : []
        return try commit(
            change, of: app, reading: scope, locking: names, shown: { batch in target.flatMap { batch.keys(of: $0, app: app.id).first } })
    }

    /// A change of the next installations that a user owns, whose name it locks.
    /// - Returns: with the installation after which to go on; nil at the end.
    package func commitPage(
        of user: String, after cursor: PushID, limit: Int, app: App, also: (RegistryBatch, [PushID]) -> [PostgresQuery] = { _, _ in [] },
        _ change: ([PushID]) -> RegistryChange
    ) throws -> (committed: Committed, next: PushID?) {
        try session.execute(RegistryLock.query(RegistryLock.keys(app: app.id, users: [user])))
        let owned = try InstallationStore(session: session, app: app).installations(ownedBy: user, after: cursor, limit: limit)
        guard !owned.isEmpty else { return (Committed(), nil) }
        let committed = try commit(change(owned), of: app, reading: Scope(app: app.id, installations: owned), also: also)
        return (committed, owned.count < limit ? nil : owned.last)
    }

    /// - Parameter also: Gets the batch and the installations of the change; runs in the same transaction.
    package func commit(
        _ change: RegistryChange, of app: App, reading scope: Scope, locking names: [Int64] = [],
        also: (RegistryBatch, [PushID]) -> [PostgresQuery] = { _, _ in [] }, shown: (RegistryBatch) -> InstallationKey? = { _ in nil }
    ) throws -> Committed {
        let loaded = try load([scope], locking: names)
        let (batch, result) = try apply(loaded.batch) { batch in try batch.apply(change, of: app) }
        let written = try save(batch, also: also(batch, result.installations.map(\.id)))
        let key = result.installations.first ?? shown(loaded.batch)
        return Committed(
            installations: result.installations, shown: key.flatMap { batch.installations[$0] }, tokens: result.tokens,
            fences: loaded.openFences + result.fenced.sorted().compactMap { written[$0] })
    }
}
