package import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit
package import TokenServiceRegistry
import TokenServiceSending

/// `POST /v1/apps/{app}/users/{user}/erase`: removes all data of one user in one app.
///
/// First the fences: from the first committed batches on, no push that was queued for the user reaches a device. Then the installations'
/// data, in bounded transactions that each leave a consistent state. The history names the installations that the user has left. If another
/// user has one of them now, only the data of the erased user's time goes. The table `erasures` lists the remaining work, so repeating a
/// call that was cut short finishes it.
///
/// Erasure removes every registration and push from before the call. One that races with the call is either erased or survives as new. A
/// delivery under way of a notification to others as well is not removed: its job names the erased token alone. It ends by itself, and its
/// outcome leaves no receipt.
package struct Erasure: Sendable {
    /// Installations in one transaction.
    private static let installationBatch = 100

    private let pool: PostgresPool
    private let fences: FencePublisher

    package init(pool: PostgresPool, fences: FencePublisher) {
        self.pool = pool
        self.fences = fences
    }

    /// The rows that this call removed.
    package struct Result: Equatable, Sendable {
        package var fence = FenceState.none
        package var installations = 0
        package var tokens = 0
        package var history = 0
        package var receipts = ReceiptRemoval.Count()
        package var quietHours = 0
        package var activities = 0
        /// Entries removed from lists that name others too.
        package var listEntries = 0

        /// Nothing was there to remove.
        var isEmpty: Bool {
            [
                installations, tokens, history, receipts.notifications, receipts.deliveries, receipts.idempotencyRecords, quietHours,
                activities, listEntries,
            ]
            .allSatisfy { $0 == 0 }
        }
    }

    /// - Throws: `PostgresError`; the steps until then stay done.
    package func erase(user: String, app: App, by actor: AuditActor) async throws -> Result {
        let (historyEnd, isKnown) = try await pool.transaction { session in
            let store = ErasureStore(session, app: app, user: user)
            let historyEnd = try store.historyEnd()
            let isKnown = try store.isKnown()
            if isKnown { try Self.record(user: user, app: app, by: actor, in: session) }
            return (historyEnd, isKnown)
        }
        var result = try await endInstallations(user: user, app: app)
        try await endLeft(user: user, app: app, upTo: historyEnd, into: &result)
        try await pool.transaction { session in _ = try session.execute(ErasureBarrier.wait(for: app)) }
        // Not before the fences: without quiet hours, a push that waits for their end would be due.
        result.quietHours = try await pool.session { session in try QuietHoursStore(session: session, app: app).remove(user) }
        result.activities += try await removeAll { session in try ActivityReading(session: session, app: app).remove(of: user) }
        try await removeNotifications(user: user, app: app, into: &result)
        try await leaveLists(app: app, into: &result) { session, cursor in
            try ErasureStore(session, app: app, user: user).leaveUserLists(after: cursor)
        }
        while true {
            let ended = try await pool.session { session in
                try ErasureStore(session, app: app, user: user).ended(limit: Self.installationBatch)
            }
            guard !ended.isEmpty else { break }
            try await removeRemains(of: ended, user: user, app: app, into: &result)
        }
        result.history += try await removeAll { session in
            try ErasureStore(session, app: app, user: user).removeHistory(namingUserUpTo: historyEnd)
        }
        // What came under this name meanwhile.
        if !isKnown, !result.isEmpty {
            try await pool.session { session in try Self.record(user: user, app: app, by: actor, in: session) }
        }
        if result.fence == .none { result.fence = try await fenceOfEarlierCalls(user: user, app: app) }
        return result
    }

    private static func record(user: String, app: App, by actor: AuditActor, in session: PostgresSession) throws {
        try AuditStore(session: session).record(
            .userErased, by: actor, app: app.slug, object: AuditEntry.object(user: user, of: app.slug))
    }

    private func endInstallations(user: String, app: App) async throws -> Result {
        var result = Result()
        var cursor: PushID? = .lowest
        while let from = cursor {
            let page = try await pool.registryTransaction { session in
                try ErasureStore(session, app: app, user: user).endInstallations(after: from, limit: Self.installationBatch)
            }
            await add(page.committed, to: &result)
            cursor = page.next
        }
        return result
    }

    /// Installations that the user has left, known from the history alone: read before any of it is removed.
    private func endLeft(user: String, app: App, upTo historyEnd: Int64, into result: inout Result) async throws {
        var cursor: Int64? = 0
        while let from = cursor {
            let left = try await pool.transaction { session in
                try ErasureStore(session, app: app, user: user).noteLeft(after: from, upTo: historyEnd, limit: Self.installationBatch)
            }
            if !left.installations.isEmpty {
                let committed = try await pool.registryTransaction { session in
                    try ErasureStore(session, app: app, user: user).endAbandoned(left.installations)
                }
                await add(committed, to: &result)
            }
            cursor = left.last
        }
    }

    private func add(_ committed: RegistryStore.Committed, to result: inout Result) async {
        result.fence = result.fence.combined(with: await fences.publish(committed.fences))
        result.installations += committed.installations.count
        result.tokens += committed.tokens
    }

    /// The notifications that were sent to the user by name.
    private func removeNotifications(user: String, app: App, into result: inout Result) async throws {
        var cursor = PushID.lowest
        while true {
            let from = cursor
            let page = try await pool.session { session in
                try ErasureStore(session, app: app, user: user).notificationsToUser(after: from)
            }
            guard let last = page.last else { return }
            try await remove(page, app: app, into: &result)
            cursor = last
        }
    }

    /// Page by page; a list that names no other user is removed as a whole.
    private func leaveLists(
        app: App, into result: inout Result,
        _ leave: @escaping @Sendable (PostgresSession, PushID) throws -> ErasureStore.Listing
    ) async throws {
        var cursor = PushID.lowest
        while true {
            let from = cursor
            let page = try await pool.transaction { session in try leave(session, from) }
            result.listEntries += page.entries
            if !page.only.isEmpty { try await remove(page.only, app: app, into: &result) }
            guard let last = page.last else { return }
            cursor = last
        }
    }

    private func removeRemains(
        of ended: [ErasureStore.Ended], user: String, app: App, into result: inout Result
    ) async throws {
        try await leaveLists(app: app, into: &result) { session, cursor in
            try ErasureStore(session, app: app, user: user).leaveInstallationLists(ended, after: cursor)
        }
        while true {
            let page = try await pool.session { session in
                try ErasureStore(session, app: app, user: user).notifications(to: ended)
            }
            guard !page.isEmpty else { break }
            try await remove(page, app: app, into: &result)
        }
        // In transactions of their own: the counter locks its position before notifications.
        _ = try await removeAll { session in try ErasureStore(session, app: app, user: user).removeDeviceReceipts(of: ended) }
        for stay in ended {
            var cursor: PushID? = .lowest
            while let from = cursor {
                let step = try await pool.transaction { session in
                    try ErasureStore(session, app: app, user: user).removeReceipts(of: stay, after: from)
                }
                result.receipts.deliveries += step.removed
                cursor = step.last
            }
        }
        result.history += try await removeAll { session in try ErasureStore(session, app: app, user: user).removeHistory(of: ended) }
        try await pool.session { session in try ErasureStore(session, app: app, user: user).finish(ended) }
    }

    /// Repeats a step, each time in a transaction of its own.
    /// - Returns: how many rows it removed.
    private func removeAll(_ body: @escaping @Sendable (PostgresSession) throws -> RemovalStep) async throws -> Int {
        var total = 0
        while true {
            let step = try await pool.transaction(body)
            total += step.removed
            if step.isDone { return total }
        }
    }

    private func remove(_ notifications: [PushID], app: App, into result: inout Result) async throws {
        repeat {
            result.receipts += try await pool.transaction { session in
                try ReceiptRemoval(session: session, app: app).removeBatch(of: notifications)
            }
        } while !result.receipts.isDone
    }

    /// A call that finds nothing may be the repetition of one whose fences the broker did not confirm.
    private func fenceOfEarlierCalls(user: String, app: App) async throws -> FenceState {
        let from = fences.oldestWaiting
        let open = try await pool.session { session in try ErasureStore(session, app: app, user: user).openFences(from: from) }
        return await fences.publish(open)
    }
}

extension Erasure {
    static let request = JSONSchema.request("Erasure", [.required("confirm", .user, "The user's name once more.")])

    /// - Returns: nil if the body does not name the user.
    static func confirmation(of user: String, _ body: inout JSONObjectReader) -> Void? {
        let confirmed = body.string("confirm", maximumBytes: StatedUser.maximumBytes)
        if let confirmed, !confirmed.utf8.elementsEqual(user.utf8) {
            body.problem("confirm", "mismatch", "must be the user that the path names")
        }
        body.finish()
        return confirmed.map { _ in () }
    }

    static let response = ResponseSchema<(app: AppSlug, keyID: String, result: Result)>.object(
        "ErasureResult",
        [
            .required("app", .slug) { $0.app },
            .required(
                "user_erased", .boolean,
                "Whether this call removed anything. False: nothing was stored under this name, or an earlier call has removed it."
            ) { !$0.result.isEmpty },
            .required("erased_at", .time) { _ in UnixTime.milliseconds() },
            .required("key_id", .text(.keyID), "The key that asked for it.") { $0.keyID },
            .required("fence", .fence) { $0.result.fence },
            .required("erased", counts, "How much this call removed.") { $0.result },
        ])

    private static let counts = ResponseSchema<Result>.object(
        nil,
        [
            .required("installations", .count) { $0.installations },
            .required("tokens", .count) { $0.tokens },
            .required("history", .count) { $0.history },
            .required("notifications", .count) { $0.receipts.notifications },
            .required("deliveries", .count) { $0.receipts.deliveries },
            .required("idempotency_records", .count) { $0.receipts.idempotencyRecords },
            .required("quiet_hours", .count) { $0.quietHours },
            .required("activities", .count) { $0.activities },
            .required("list_entries", .count, "The user's entries in lists of notifications to others as well.") { $0.listEntries },
        ])
}
