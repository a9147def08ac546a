import Postgres
package import PushModel

extension SignOut {
    /// Installations in one transaction.
    private static let batch = 100

    /// Signs a user out everywhere, or everywhere but there: page by page, each a transaction of its own, so that no user has too many
    /// installations. Repeated, it also publishes what an earlier call or another change left open.
    package func logOut(user: String, except: PushID?, app: App) async throws -> Result {
        var result = Result(installation: nil, signedOut: false, ownerEpoch: 0, fence: .none, count: 0)
        var cursor = PushID.lowest
        var published: Set<Int64> = []
        while true {
            let from = cursor
            let page = try await pool.transaction { session in
                try Self.endPage(of: user, except: except, after: from, in: InstallationStore(session: session, app: app))
            }
            result.count += page.ended
            // A broker that does not answer is waited for once; the relay publishes the rest.
            if result.fence != .pending {
                result.fence = result.fence.combined(with: await fences.publish(page.fences))
                published.formUnion(page.fences.map(\.id))
            }
            guard let last = page.last else { break }
            cursor = last
        }
        result.signedOut = result.count > 0
        if result.fence != .pending {
            let open = try await pool.session { session in try InstallationStore(session: session, app: app).openFences(of: user) }
            // A fence that was just confirmed is written down as published only a little later.
            result.fence = result.fence.combined(with: await fences.publish(open.filter { !published.contains($0.id) }))
        }
        return result
    }

    private struct Page: Sendable {
        var ended = 0
        var fences: [Fence] = []
        /// Nil at the end of the walk.
        var last: PushID?
    }

    private static func endPage(
        of user: String, except: PushID?, after cursor: PushID, in store: InstallationStore
    ) throws -> Page {
        var lock = RegistryLock(app: store.app.id)
        lock.add(user: user)
        try lock.take(in: store.session)
        let owned = try store.installations(ownedBy: user, after: cursor, limit: batch)
        guard let last = owned.last else { return Page() }
        let others = owned.filter { $0 != except }
        let rows = try store.lockInstallations(others)
        let committed = try end(others.filter { rows[$0]?.owner.hasSameBytes(as: user) == true }, among: rows, in: store)
        // Whoever has fewer than a page, nearly everybody, is signed out at one moment: looking further would also end what began since.
        return Page(
            ended: committed.ended.count, fences: try store.unpublishedFences(of: committed.fenced),
            last: owned.count < batch ? nil : last)
    }
}
