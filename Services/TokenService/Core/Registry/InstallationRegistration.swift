package import Postgres
import PushModel

/// `PUT /v1/apps/{app}/installations/{id}`: the eight rules of DESIGN.md section 3 in one transaction, then the fences.
package struct InstallationRegistration: Sendable {
    private let pool: PostgresPool
    private let fences: FencePublisher

    package init(pool: PostgresPool, fences: FencePublisher) {
        self.pool = pool
        self.fences = fences
    }

    package struct Result: Sendable {
        package var record: InstallationRecord
        package var isNew: Bool
    }

    /// - Throws: ``OwnerMismatch``, which leaves everything as it was; `PostgresError`.
    package func register(_ registration: Registration, app: App) async throws -> Result {
        let committed = try await pool.transaction { session in try apply(registration, app: app, in: session) }
        let fence = await fences.publish(committed.fences)
        var record = committed.record
        record.fence = record.fence.settled(by: fence)
        return Result(record: record, isNew: committed.isNew)
    }

    /// Registers many: one answer for each, in their order; one that fails leaves the others alone. Later ones see what earlier ones did.
    package func register(_ registrations: [Registration], app: App) async -> [Swift.Result<Result, any Error>] {
        var results: [Swift.Result<Result, any Error>] = []
        for registration in registrations {
            do { results.append(.success(try await register(registration, app: app))) } catch { results.append(.failure(error)) }
        }
        return results
    }

    private struct Committed: Sendable {
        var record: InstallationRecord
        var isNew: Bool
        var fences: [Fence]
    }

    private func apply(_ registration: Registration, app: App, in session: PostgresSession) throws -> Committed {
        let store = InstallationStore(session: session, app: app)
        try registration.lock(for: app).take(in: session)
        let rows = try store.lockInstallations(concernedBy: registration, singleOwner: app.devicePolicy == .single)
        let before = rows[registration.installation]
        guard registration.expectedOwner.allows(before?.owner) else { throw OwnerMismatch() }

        let now = try store.clock()
        try store.upsert(registration, at: now)
        let held = try store.lockTokens(registration)
        let lost = TokenLosses(held, registration: registration, rows: rows)
        try store.retire(lost.replaced, reason: .replaced, at: now)
        try store.retire(lost.removed, reason: .removed, at: now)
        try store.bind(registration.tokens, to: registration.installation, at: now)

        let superseded = app.devicePolicy == .single ? rows.others(ownedBy: registration.user, than: registration.installation) : []
        try store.signOut(superseded, reason: .superseded)
        var ended = superseded + lost.losersOfAnotherOwner
        if let before, before.owner != registration.user { ended.append(registration.installation) }
        let fenced = try store.fence(ended, at: now)
        try store.noteMoves(from: lost.losersOfSameOwner, to: registration.installation, at: now)
        return Committed(
            record: try store.record(registration.installation), isNew: before?.isRegistered != true,
            fences: try store.unpublishedFences(of: fenced + [registration.installation]))
    }
}

extension Registration {
    fileprivate func lock(for app: App) -> RegistryLock {
        var lock = RegistryLock(app: app.id)
        lock.add(installation: installation)
        for token in tokens { lock.add(token: token.token) }
        if let replaces { lock.add(token: replaces) }
        if app.devicePolicy == .single, let user { lock.add(user: user) }
        return lock
    }
}

extension FenceState {
    /// What is left of this state after its unpublished fences were published with the given result.
    package func settled(by published: FenceState) -> FenceState {
        switch published {
        case .none: self
        case .effective: .effective
        case .pending: .pending
        }
    }
}
