package import Postgres
package import PushModel
package import TokenServiceApps
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
        case replay(NotificationReceipt)
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

    /// - Parameter row: With the columns token, environment, installation, owner_epoch and may_try (the other environment).
    package static func delivery(_ row: PostgresRow, id: PushID) throws -> PushJob.Delivery {
        PushJob.Delivery(
            id: id, token: try row["token"], environment: try row["environment"], installation: try row["installation"],
            ownerEpoch: try row["owner_epoch"], environmentTrial: try row["may_try"] ? .allowed : .none)
    }
}
