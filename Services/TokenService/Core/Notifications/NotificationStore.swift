package import Postgres
package import PushModel

/// The SQL that accepts notifications: a list, because requests that come together share one commit.
package struct NotificationStore {
    /// Deliveries that an acceptance makes itself; who has more devices is walked.
    package static let maximumResolved = 500

    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// An object, because it is handed on many times and has many parts.
    package final class Item: Sendable {
        package let notification: Notification
        package let app: App
        package let idempotency: IdempotencyKey?
        /// How long this process alone may publish it; zero where it cannot publish now.
        package let leaseSeconds: Double

        package init(notification: Notification, app: App, idempotency: IdempotencyKey?, leaseSeconds: Double) {
            self.notification = notification
            self.app = app
            self.idempotency = idempotency
            self.leaseSeconds = leaseSeconds
        }
    }

    package enum Verdict: Equatable, Sendable {
        /// Written with its deliveries; to be published. With the row of the outbox, where that is this process's to do.
        case resolved([PushJob.Delivery], outbox: Int64?)
        /// Written; its targets are found when it is due.
        case walked
        /// The same request was accepted before.
        case replay(NotificationReceipt)
        case mismatch
    }

    /// In the order of the items, no two of which may have the same idempotency key. Commits: nothing may follow in the transaction.
    package func insert(_ items: [Item]) throws -> [Verdict] {
        let fresh = try claimKeys(of: items)
        let isFresh: (Item) -> Bool = { $0.idempotency == nil || fresh.contains($0.notification.id) }
        var resolved: [PushID: [PushJob.Delivery]] = [:]
        var walked: Set<PushID> = []
        let newcomers = items.filter(isFresh)
        var commands = Self.supersessionLocks(newcomers)
        let resolvable = newcomers.filter(\.notification.request.isResolvedAtOnce)
        for item in newcomers where !item.notification.request.isResolvedAtOnce {
            walked.insert(item.notification.id)
            commands += Self.walkedRows(item)
        }
        if !resolvable.isEmpty { commands.append((Self.insertResolved, Self.resolvedRows(resolvable))) }
        let replays = try items.map { item in isFresh(item) ? nil : try item.idempotency.map { try claimedEarlier($0, app: item.app) } }
        let answers = try session.commit(with: commands)
        var outbox: Int64?
        if !resolvable.isEmpty, let rows = answers.last {
            outbox = try rows.first?.optionalInt64(8)
            for row in rows {
                let id = try row.id(6)
                if try row.bool(7) { walked.insert(id) } else { resolved[id, default: []].append(try Self.delivery(row)) }
            }
        }
        return zip(items, replays).map { item, replay in
            let id = item.notification.id
            return replay ?? (walked.contains(id) ? .walked : .resolved(resolved[id] ?? [], outbox: outbox))
        }
    }

    /// Takes the keys for these notifications. Whoever comes second waits here for the first one's commit.
    /// - Returns: the notifications that have theirs.
    /// - Throws: ``IdempotencyInProgress`` where that takes longer than the database's lock timeout.
    private func claimKeys(of items: [Item]) throws -> Set<PushID> {
        let claims = items.compactMap { item in
            item.idempotency.map { (key: KeyOfApp(app: item.app.id, caller: $0.caller, key: $0.key), value: item) }
        }
        guard !claims.isEmpty else { return [] }
        let ordered = claims.sorted { $0.key < $1.key }
        do {
            let rows = try session.execute(
                Self.claimKeys,
                [
                    .int64Array(ordered.map(\.key.app)), .textArray(ordered.map(\.key.caller)), .textArray(ordered.map(\.key.key)),
                    .bytesArray(ordered.map { $0.value.idempotency?.fingerprint ?? [] }), .ids(ordered.map(\.value.notification.id)),
                    .textArray(ordered.map { NotificationWarning.stored($0.value.notification.request.warnings) }),
                ])
            return Set(try rows.map { row in try row.id(0) })
        } catch let error as PostgresError {
            guard error.sqlState == .lockNotAvailable else { throw error }
            throw IdempotencyInProgress()
        }
    }

    private struct KeyOfApp: Hashable, Comparable {
        let app: Int64
        let caller: String
        let key: String

        static func < (left: KeyOfApp, right: KeyOfApp) -> Bool {
            (left.app, left.caller, left.key) < (right.app, right.caller, right.key)
        }
    }

    /// What was accepted with the key within its 24 hours: ``Verdict/replay(_:)``, ``Verdict/mismatch``, or nil.
    package func earlier(_ idempotency: IdempotencyKey, app: App) throws -> Verdict? {
        let rows = try session.execute(Self.selectKey, [.int64(app.id), .text(idempotency.caller), .text(idempotency.key)])
        guard let row = rows.first, try row.bool(10) else { return nil }
        guard try row.bytes(0) == idempotency.fingerprint else { return .mismatch }
        return .replay(try Self.receipt(row, app: app))
    }

    /// What the key was used for by an earlier transaction. Its record is there, and so is its notification: ``claimKeys(of:)`` locked the
    /// record, and both are removed together.
    private func claimedEarlier(_ idempotency: IdempotencyKey, app: App) throws -> Verdict {
        let row = try session.execute(Self.selectKey, [.int64(app.id), .text(idempotency.caller), .text(idempotency.key)]).only()
        guard try row.bytes(0) == idempotency.fingerprint else { return .mismatch }
        return .replay(try Self.receipt(row, app: app))
    }

    private static func receipt(_ row: PostgresRow, app: App) throws -> NotificationReceipt {
        guard let lane = Lane(rawValue: try row.text(2)), let type = PushType(rawValue: try row.text(3)) else {
            throw CorruptRow(table: "notifications")
        }
        return NotificationReceipt(
            id: try row.id(1), app: app.slug, lane: lane, pushType: type, deliveries: try row.bool(7) ? nil : Int(try row.int32(4)),
            isScheduled: try row.bool(8), acceptedAt: try row.timestampMilliseconds(5), expiresAt: try row.timestampMilliseconds(6),
            warnings: try NotificationWarning.restored(row.text(9)))
    }

    /// Columns: delivery id, token, environment, installation, owner epoch, whether the other environment may be tried.
    package static func delivery(_ row: PostgresRow) throws -> PushJob.Delivery {
        guard let token = DeviceToken(bytes: try row.bytes(1)), let environment = APNsEnvironment(rawValue: try row.text(2)) else {
            throw CorruptRow(table: "tokens")
        }
        return PushJob.Delivery(
            id: try row.id(0), token: token, environment: environment, installation: try row.id(3), ownerEpoch: try row.int64(4),
            environmentTrial: try row.bool(5) ? .allowed : .none)
    }
}
