package import Postgres
package import PushModel
package import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry

/// The SQL that accepts notifications: a list, because requests that come together share one commit. They may be of several apps: each item
/// carries its own, and every look at an app's rows compares them with that of the item.
package struct NotificationStore {
    /// Deliveries that an acceptance makes itself. Fan-out makes those of a user with more devices.
    package static let maximumResolved = 500

    private let session: PostgresSession
    /// Called after the commit with how many updates newer ones replaced.
    private let onSuperseded: @Sendable (Int) -> Void

    package init(session: PostgresSession, onSuperseded: @escaping @Sendable (Int) -> Void = { _ in }) {
        self.session = session
        self.onSuperseded = onSuperseded
    }

    /// An object, because it has many parts and is passed on many times.
    package final class Item: Sendable {
        package let notification: Notification
        package let app: App
        package let idempotency: IdempotencyKey?
        /// How long this process alone may publish it; zero if it cannot publish now.
        package let leaseSeconds: Double
        /// An update waits until then, UNIX milliseconds; nil: it does not.
        let waitsUntil: Int64?
        /// The Live Activity that it updates is not known, or over.
        let reachesNoDevice: Bool

        package init(
            notification: Notification, app: App, idempotency: IdempotencyKey?, leaseSeconds: Double, waitsUntil: Int64? = nil,
            reachesNoDevice: Bool = false
        ) {
            self.notification = notification
            self.app = app
            self.idempotency = idempotency
            self.leaseSeconds = leaseSeconds
            self.waitsUntil = waitsUntil
            self.reachesNoDevice = reachesNoDevice
        }

        var isResolvedAtOnce: Bool { reachesNoDevice || waitsUntil == nil && notification.request.isResolvedAtOnce }
    }

    package enum Insertion: Equatable, Sendable {
        /// Written with its jobs, whose deliveries these are, in the order of their places.
        case resolved([PushJob.Delivery])
        /// Written. Fan-out finds its targets when it is due.
        case leftToFanOut
        /// The same request was accepted before.
        case replay(AcceptedNotification)
        /// The key was used for another request. Nothing was written.
        case mismatch
        /// Another transaction is using the idempotency key. Nothing was written.
        case keyInProgress
        /// The Live Activity that it starts exists. Nothing was written.
        case activityExists
    }

    /// In the order of the items, no two of which may have the same idempotency key. Commits: no statement may follow in the transaction.
    package func insert(_ items: [Item]) throws -> [Insertion] {
        let claims = try claimKeys(of: items)
        let isFresh: (Item) -> Bool = { $0.idempotency == nil || claims[$0.notification.id] == true }
        var resolved: [PushID: [PushJob.Delivery]] = [:]
        var fannedOut: Set<PushID> = []
        var names = DeliveryNames(.lowest)
        let updates = try UpdateAdmission(items.filter(isFresh), in: session)
        let newcomers = updates.items
        var queries = Self.supersessionLocks(newcomers)
        let resolvable = newcomers.filter(\.isResolvedAtOnce)
        for item in newcomers where !item.isResolvedAtOnce {
            fannedOut.insert(item.notification.id)
            let targets = Self.insertTargets(of: item)
            // The parts of a long list go one after another: a connection keeps a buffer as large as its largest pipeline.
            for part in targets.dropLast() { try session.execute(part) }
            queries += Self.insertForFanOut(item) + targets.suffix(1)
        }
        let place = queries.count
        if !resolvable.isEmpty { queries.append(Self.insertResolved(resolvable)) }
        queries += updates.writes
        let replays: [Insertion?] = try items.map { item in
            guard !isFresh(item), let idempotency = item.idempotency else { return nil }
            return claims[item.notification.id] == false
                ? .keyInProgress : try IdempotencyRecords(session: session, app: item.app).claimedEarlier(idempotency)
        }
        let answers = try session.commit(with: queries)
        onSuperseded(updates.superseded.count)
        if !resolvable.isEmpty {
            for row in answers[place] {
                let (id, place): (PushID, Int) = (try row["notification"], try row["place"])
                guard try !row["is_fanned_out"] else {
                    fannedOut.insert(id)
                    continue
                }
                if names.notification != id { names = DeliveryNames(id) }
                let delivery = names.id(job: place / PushJob.maximumDeliveries, position: place % PushJob.maximumDeliveries)
                resolved[id, default: []].append(try Self.delivery(row, id: delivery))
            }
        }
        return zip(items, replays).map { item, replay in
            let id = item.notification.id
            if let replay { return replay }
            if updates.refused.contains(id) { return .activityExists }
            return fannedOut.contains(id) ? .leftToFanOut : .resolved(resolved[id] ?? [])
        }
    }

    /// Takes the keys for these notifications, and waits for none: one caller's key would keep the others of its batch waiting.
    /// - Returns: true for a notification that has its key, false for one whose key another transaction is using, nothing for the others,
    ///   whose keys were used before.
    private func claimKeys(of items: [Item]) throws -> [PushID: Bool] {
        let claims = items.compactMap { item in
            item.idempotency.map { (key: KeyOfApp(app: item.app.id, caller: $0.caller, key: $0.key), value: item) }
        }
        guard !claims.isEmpty else { return [:] }
        let ordered = claims.sorted { $0.key < $1.key }
        return try session.execute(
            Self.claimKeys(
                apps: ordered.map(\.key.app), callers: ordered.map(\.key.caller), keys: ordered.map(\.key.key),
                fingerprints: ordered.map { $0.value.idempotency?.fingerprint ?? [] },
                notifications: ordered.map(\.value.notification.id),
                warnings: ordered.map { NotificationWarning.stored($0.value.notification.request.warnings) })
        ).reduce(into: [:]) { claims, row in claims[try row["notification"]] = try row["is_claimed"] as Bool }
    }

    private struct KeyOfApp: Hashable, Comparable {
        let app: Int64
        let caller: String
        let key: String

        static func < (left: KeyOfApp, right: KeyOfApp) -> Bool {
            (left.app, left.caller, left.key) < (right.app, right.caller, right.key)
        }
    }

    /// - Parameter row: A row with the columns token, environment, installation, owner_epoch and may_try (the other environment).
    package static func delivery(_ row: PostgresRow, id: PushID) throws -> PushJob.Delivery {
        PushJob.Delivery(
            id: id, token: try row["token"], environment: try row["environment"], installation: try row["installation"],
            ownerEpoch: try row["owner_epoch"], environmentTrial: try row["may_try"] ? .allowed : .none)
    }
}

extension NotificationStore {
    /// Entries of a list that one statement writes: far from the statement timeout, and 1.3 MB of the longest names.
    private static let targetsOfStatement = 5000

    /// The members of a list, as they are now: with the owners' epochs, and tokens with their installations. It leaves out a token without
    /// an installation. Such a token reaches no device, and an erasure of its user could not find it: no row would record whose it was.
    static func insertTargets(of item: Item) -> [PostgresQuery] {
        let (id, app, request) = (item.notification.id, item.app.id, item.notification.request)
        switch request.target {
        case .users(let users):
            return users.parts(of: targetsOfStatement).map { before, part in
                """
                INSERT INTO targets (notification, place, app_id, owner)
                SELECT \(id), place + \(before), \(app), owner FROM unnest(\(part)::text[]) WITH ORDINALITY AS named (owner, place)
                """
            }
        case .installations(let installations):
            return installations.parts(of: targetsOfStatement).map { before, part in
                """
                INSERT INTO targets (notification, place, app_id, installation, owner_epoch)
                SELECT \(id), place + \(before), \(app), named.id, i.owner_epoch
                FROM unnest(\(part)::uuid[]) WITH ORDINALITY AS named (id, place)
                LEFT JOIN installations i ON i.app_id = \(app) AND i.id = named.id
                """
            }
        case .tokens(let tokens):
            return [
                """
                INSERT INTO targets (notification, place, app_id, installation, owner_epoch, token)
                SELECT \(id), place, \(app), held.id, held.owner_epoch, named.token
                FROM unnest(\(tokens.map(\.bytes))::bytea[]) WITH ORDINALITY AS named (token, place) CROSS JOIN LATERAL (
                    SELECT i.owner_epoch, i.id FROM tokens t JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation
                    -- IS TRUE: by the token, of all indexes that begin with the app.
                    WHERE t.app_id = \(app) AND t.token = named.token
                        AND (t.purpose = \(request.purpose) AND t.state = 'active') IS TRUE
                    ORDER BY t.registered_at DESC LIMIT 1
                ) AS held
                """
            ]
        case .user, .installation, .tags, .all, .channel: return []
        }
    }
}

extension Array {
    /// Splits the array into parts of at most `size`, each with the number of elements before it.
    fileprivate func parts(of size: Int) -> [(before: Int, part: [Element])] {
        stride(from: 0, to: count, by: size).map { ($0, Array(self[$0..<Swift.min($0 + size, count)])) }
    }
}

/// One accepted send request with everything that its jobs need.
package struct Notification: Equatable, Sendable {
    package var id: PushID
    package var app: AppSlug
    package var topic: String
    package var request: NotificationRequest
    /// UNIX milliseconds.
    package var acceptedAt: Int64
    /// W3C trace context: the sender's, or our own.
    package var traceparent: String
}

/// `accepted → sending → completed`, or an end without a push.
package enum NotificationState: String, CaseIterable, Sendable {
    case accepted, scheduled, expanding, sending, completed, cancelled, expired
    case noTargets = "no_targets"
}

/// The sender's answer with the 202. A function of the row, so that a replay gives the same bytes.
package struct AcceptedNotification: Equatable, Sendable {
    package var id: PushID
    package var app: AppSlug
    package var lane: Lane
    package var pushType: PushType
    /// Nil where the targets are found later.
    package var deliveries: Int?
    /// It was not due yet in any time zone when it was accepted.
    package var isScheduled = false
    package var acceptedAt: Int64
    package var expiresAt: Int64
    package var warnings: [NotificationWarning] = []

    /// The state that the notification's row shows.
    var state: NotificationState { deliveries == 0 ? .noTargets : isScheduled ? .scheduled : .accepted }

    static let response = ResponseSchema<AcceptedNotification>.object("Receipt", fields)

    static let fields: [ResponseSchema<AcceptedNotification>.Field] = [
        .required("id", .uuid) { $0.id },
        .required("app", .slug) { $0.app },
        .required("state", .word) { $0.state },
        .required("lane", .word) { $0.lane },
        .required("push_type", .word) { $0.pushType },
        .optional("deliveries", .count, "To how many tokens; absent where they are found after the answer.") { $0.deliveries },
        .required("accepted_at", .time) { $0.acceptedAt },
        .required("expires_at", .time) { $0.expiresAt },
        .required("warnings", .array(NotificationWarning.response), "Legal but doubtful.") { $0.warnings },
    ]
}

/// The idempotency keys that an app's callers have used.
struct IdempotencyRecords {
    let session: PostgresSession
    let app: App

    init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// The result of the key's use today or yesterday, UTC: ``NotificationStore/Insertion/replay(_:)``,
    /// ``NotificationStore/Insertion/mismatch``, or nil.
    func earlier(_ idempotency: IdempotencyKey) throws -> NotificationStore.Insertion? {
        try session.execute(select(idempotency)).first.map { row in try insertion(row, of: idempotency) }
    }

    /// The use of the key by an earlier transaction. Its record is there, and so is its notification: the claim of the key locked the
    /// record, and both are removed together.
    func claimedEarlier(_ idempotency: IdempotencyKey) throws -> NotificationStore.Insertion {
        try insertion(session.execute(select(idempotency)).only(), of: idempotency)
    }

    private func insertion(_ row: PostgresRow, of idempotency: IdempotencyKey) throws -> NotificationStore.Insertion {
        let fingerprint: [UInt8] = try row["fingerprint"]
        return fingerprint == idempotency.fingerprint ? .replay(try receipt(row)) : .mismatch
    }

    /// - Parameter row: A row of ``select(_:)``.
    private func receipt(_ row: PostgresRow) throws -> AcceptedNotification {
        let (total, isFannedOut): (Int32, Bool) = (try row["total"], try row["is_fanned_out"])
        return AcceptedNotification(
            id: try row["id"], app: app.slug, lane: try row["lane"], pushType: try row["push_type"],
            deliveries: isFannedOut ? nil : Int(total), isScheduled: try row["is_scheduled"],
            acceptedAt: try row.milliseconds("accepted_at"),
            expiresAt: try row.milliseconds("expires_at"), warnings: try NotificationWarning.restored(row["warnings"]))
    }

    /// The earlier use of a key. A key that was first used in the first minutes of a day has two records, of the same notification.
    func select(_ idempotency: IdempotencyKey) -> PostgresQuery {
        """
        SELECT r.fingerprint, n.id, n.lane, n.push_type, n.total, n.accepted_at, n.expires_at, n.is_fanned_out,
            (coalesce(n.not_before, n.local_text::timestamp AT TIME ZONE 'Etc/GMT-14') > n.accepted_at) IS TRUE AS is_scheduled, r.warnings
        FROM idempotency_records r JOIN notification_records n ON n.id = r.notification
        WHERE r.app_id = \(app.id) AND r.api_key_id = \(idempotency.caller) AND r.key = \(idempotency.key)
            AND r.day >= date_trunc('day', now(), 'UTC') - interval '24 hours'
        ORDER BY r.day DESC LIMIT 1
        """
    }
}
