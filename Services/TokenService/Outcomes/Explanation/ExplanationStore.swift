package import Postgres
package import PushModel
package import TokenServiceApps
import TokenServiceRegistry
import TokenServiceSending

/// The SQL that reads the events of one notification for one user.
package struct ExplanationStore {
    /// Installations of one user that the explanation reads.
    package static let maximumInstallations = 100
    /// Lines of the history of each installation that the explanation reads.
    static let maximumLines = 50

    private let session: PostgresSession
    let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// Several statements: the transaction must be of isolation `.repeatableRead`.
    /// - Returns: nil where the app has no such notification.
    package func facts(of id: PushID, user: String) throws -> ExplanationFacts? {
        let first = try session.pipeline([row(of: id, user: user), stays(of: user), current(user), holds(on: id)])
        guard let notification = try first[0].first.map({ row in try ExplanationFacts.Notification(row) }) else { return nil }
        var stays: [PushID: [ExplanationFacts.Stay]] = [:]
        for row in first[1] {
            stays[try row["installation"], default: []].add(
                ExplanationFacts.Stay(
                    epoch: try row["owner_epoch"], from: try row.milliseconds("began_at"), to: try row.milliseconds("ended_at"),
                    reason: try row["reason"]))
        }
        for row in first[2] {
            stays[try row["id"], default: []].add(ExplanationFacts.Stay(epoch: try row["owner_epoch"], isNow: true))
        }
        // Present installations of the user come before former ones.
        let ids = stays.sorted { left, right in
            let (isLeft, isRight) = (left.value.contains(where: \.isNow), right.value.contains(where: \.isNow))
            return isLeft == isRight ? left.key < right.key : isLeft
        }.prefix(Self.maximumInstallations).map(\.key).sorted()
        var facts = ExplanationFacts(
            user: user, notification: notification,
            installations: ids.map { ExplanationFacts.Installation(id: $0, stays: stays[$0] ?? []) })
        facts.isCutShort = stays.count > ids.count
        facts.holds = try first[3].map { row in try ExplanationFacts.Hold(row) }
        facts.credentials = try CredentialStore(session: session, app: app).credentials()
        if !ids.isEmpty { try load(ids, into: &facts) }
        return facts
    }

    private func load(_ ids: [PushID], into facts: inout ExplanationFacts) throws {
        let notification = facts.notification
        let answers = try session.pipeline([
            states(of: ids, for: notification.id, user: facts.user), tokens(of: ids, for: notification.purpose),
            receipts(of: ids, for: notification.id), fences(of: ids, since: notification.acceptedAt),
            history(of: ids, since: notification.acceptedAt, for: notification.purpose),
        ])
        var byID = Dictionary(uniqueKeysWithValues: facts.installations.map { ($0.id, $0) })
        for row in answers[0] {
            let id: PushID = try row["id"]
            try byID[id]?.set(row)
        }
        var holders: [Int64: PushID] = [:]
        for row in answers[1] {
            let (token, installation): (ReachabilityState.Token, PushID) = (try ReachabilityState.Token(row), try row["installation"])
            byID[installation]?.tokens.append(token)
            holders[token.id] = installation
        }
        for row in answers[2] {
            let delivery = try ExplanationFacts.Delivery(receipt: row)
            byID[delivery.record.installation]?.deliveries.append(delivery)
        }
        for row in answers[3] {
            let id: PushID = try row["installation"]
            byID[id]?.fences.append(
                ExplanationFacts.Fence(
                    epochsBelow: try row["epochs_below"], at: try row.milliseconds("created_at"),
                    publishedAt: try row.milliseconds("published_at")))
        }
        for row in answers[4] {
            let entry = try HistoryEntry(row)
            byID[entry.installation]?.history.append(entry)
        }
        // Deliveries that have no receipt.
        let places = try MemberSearch(session: session, app: app).places(of: Set(holders.keys), in: notification.id)
        let members = try session.pipeline([members(places, of: notification.id), jobHorizon(of: notification.id)])
        for row in members[0] {
            let (token, hasEnded): (Int64, Bool) = (try row["token_id"], try row["has_ended"])
            guard let holder = holders[token], !hasEnded || notification.receipts == .failures else { continue }
            byID[holder]?.deliveries.append(try ExplanationFacts.Delivery(member: row, of: holder, outcome: hasEnded ? .accepted : nil))
        }
        if !members[1].isEmpty { facts.isCutShort = true }
        facts.installations = ids.compactMap { byID[$0] }
    }
}

extension [ExplanationFacts.Stay] {
    /// An epoch may grow while the user stays, because a token moved to another user.
    fileprivate mutating func add(_ stay: ExplanationFacts.Stay) {
        var stay = stay
        if let last, stay.from == nil, last.to == nil { stay.from = last.from }
        if last?.epoch == stay.epoch { removeLast() }
        append(stay)
    }
}

extension ExplanationFacts.Installation {
    fileprivate mutating func set(_ row: PostgresRow) throws {
        throttledUntil = try row.milliseconds("throttled_until")
        permission = try row["permission"]
        isNamed = try row["is_named"]
        namedEpoch = try row["named_epoch"]
        matchesTags = try row["matches_tags"]
        isAhead = try row["is_ahead"]
    }
}

extension ExplanationFacts.Delivery {
    fileprivate init(receipt row: PostgresRow) throws {
        let epoch: Int64 = try row["owner_epoch"]
        self.init(
            record: try NotificationStatus.Delivery(row, token: row["token"]), hasReceipt: true, ownerEpoch: epoch > 0 ? epoch : nil,
            tokenID: try row["token_id"], dueAt: try row["is_replayed"] ? nil : row.milliseconds("due_at"),
            publishedAt: try row.milliseconds("published_at"))
    }

    /// One without a receipt.
    fileprivate init(member row: PostgresRow, of installation: PushID, outcome: OutcomeClass?) throws {
        let dueAt: Int64 = try row.milliseconds("due_at")
        let record = NotificationStatus.Delivery(
            id: try row["id"], installation: installation, token: try row["token"], environment: try row["environment"],
            outcome: outcome?.rawValue, attempts: outcome == nil ? 0 : 1, updatedAt: dueAt)
        self.init(
            record: record, hasReceipt: false, tokenID: try row["token_id"], dueAt: dueAt, publishedAt: try row.milliseconds("published_at")
        )
    }
}

extension ExplanationFacts.Hold {
    fileprivate init(_ row: PostgresRow) throws {
        guard let scope = HoldScope(app: try row["app"], lane: try row["lane"], notification: try row["notification"]) else {
            throw CorruptRow(table: "holds")
        }
        self.init(
            id: try row["id"], scope: scope, reason: try row["reason"], setAt: try row.milliseconds("set_at"),
            endsAt: try row.milliseconds("ends_at"))
    }
}

extension ExplanationFacts.Notification {
    fileprivate init(_ row: PostgresRow) throws {
        self.init(
            id: try row["id"], state: try row["state"], lane: try row["lane"], pushType: try row["push_type"], purpose: try row["purpose"],
            target: try NotificationAddress(row), receipts: try row["receipts"], acceptedAt: try row.milliseconds("accepted_at"),
            notBefore: try row.milliseconds("not_before"), dueAt: try row.milliseconds("due_at"), localTime: try row["local_text"],
            expiresAt: try row.milliseconds("expires_at"),
            isUrgent: try row["is_urgent"], isFannedOut: try row["is_fanned_out"], expandedAt: try row.milliseconds("expanded_at"),
            completedAt: try row.milliseconds("completed_at"), cancelledAt: try row.milliseconds("cancelled_at"),
            cancelReason: try row["cancel_reason"], total: try row["total"],
            namesUser: try row["names_user"])
    }
}

extension ExplanationStore {
    func row(of notification: PushID, user: String) -> PostgresQuery {
        """
        SELECT *, EXISTS (
            SELECT FROM addressees WHERE app_id = \(app.id) AND notification = \(notification) AND owner = \(user)) AS names_user
        FROM notification_records WHERE app_id = \(app.id) AND id = \(notification)
        """
    }

    /// The moments at which the history names the user, as a beginning or an end. A line of history names the user who was signed in before
    /// or after it.
    func stays(of user: String) -> PostgresQuery {
        """
        SELECT installation, owner_epoch, min(at) FILTER (WHERE event IN ('registered', 'signed_in')) AS began_at,
            max(at) FILTER (WHERE event IN ('signed_out', 'deregistered')) AS ended_at,
            max(coalesce(reason, event)) FILTER (WHERE event IN ('signed_out', 'deregistered')) AS reason
        FROM (
            SELECT installation, owner_epoch, at, event, reason FROM installation_history WHERE app_id = \(app.id) AND owner = \(user)
            ORDER BY id DESC LIMIT 1000
        ) AS newest WHERE owner_epoch IS NOT NULL GROUP BY installation, owner_epoch ORDER BY owner_epoch
        """
    }

    func current(_ user: String) -> PostgresQuery {
        "SELECT id, owner_epoch FROM installations WHERE app_id = \(app.id) AND owner = \(user) ORDER BY id LIMIT 101"
    }

    /// Finds the holds in force on the notification: they are few (``HoldStore/maximumPerApp``), and have an index of their own.
    func holds(on notification: PushID) -> PostgresQuery {
        """
        SELECT h.id, a.slug AS app, h.lane, h.notification, h.reason, h.set_at, nullif(h.ends_at, 'infinity') AS ends_at
        FROM notifications n JOIN holds h ON h.lifted_at IS NULL AND h.ends_at > now() AND (h.app_id IS NULL OR h.app_id = n.app_id)
            AND (h.lane IS NULL OR h.lane = n.lane) AND (h.notification IS NULL OR h.notification IN (n.id, n.copy_of))
        LEFT JOIN apps a ON a.id = h.app_id
        WHERE n.app_id = \(app.id) AND n.id = \(notification) ORDER BY h.ends_at DESC, h.id LIMIT 10
        """
    }

    /// `is_ahead`: of an app's installations by their order, of a list by its places. Of a channel's activities it is known only before the
    /// first page. A user with many installations has a checkpoint among them.
    func states(of installations: [PushID], for notification: PushID, user: String) -> PostgresQuery {
        """
        SELECT i.id, i.permission,
            CASE WHEN i.throttled_until > now() THEN i.throttled_until END AS throttled_until,
            x.installation IS NOT NULL AS is_named, x.owner_epoch AS named_epoch,
            audience_words(i.tags, i.permission) @@ f.query AS matches_tags,
            coalesce(CASE WHEN f.target IN ('tags', 'all') THEN i.ordinal > f.checkpoint
                WHEN f.entries IS NULL THEN f.checkpoint = 0 AND f.checkpoint_installation IS NULL
                ELSE x.owner_epoch = i.owner_epoch AND x.place > f.checkpoint OR EXISTS (
                    SELECT FROM addressees a
                    WHERE a.app_id = \(app.id) AND a.notification = \(notification) AND a.owner = \(user)
                        -- IS TRUE: by the owner, not by the places behind the checkpoint.
                        AND (a.place > f.checkpoint + (i.id < f.checkpoint_installation IS TRUE)::integer) IS TRUE)
                END, false) AS is_ahead
        FROM unnest(\(installations)::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (SELECT * FROM installations WHERE app_id = \(app.id) AND id = wanted.id LIMIT 1) AS i
        LEFT JOIN fan_outs f ON f.app_id = \(app.id) AND f.notification = \(notification)
        LEFT JOIN LATERAL (
            SELECT * FROM addressees WHERE app_id = \(app.id) AND notification = \(notification) AND installation = i.id ORDER BY place
                LIMIT 1
        ) AS x ON true
        """
    }

    func tokens(of installations: [PushID], for purpose: Purpose) -> PostgresQuery {
        """
        SELECT * FROM tokens
        WHERE app_id = \(app.id) AND installation = ANY (\(installations))
            AND (purpose = \(purpose) OR purpose LIKE 'activity:%' AND \(purpose) LIKE 'channel:%') IS TRUE ORDER BY id
        """
    }

    /// Finds receipts by updated_at, which no index has: for any other order PostgreSQL may read all of the notification's receipts.
    func receipts(of installations: [PushID], for notification: PushID) -> PostgresQuery {
        """
        SELECT r.*, t.token, j.due_at, j.published_at
        FROM unnest(\(installations)::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (
            SELECT * FROM reported_receipts WHERE installation = wanted.id
                AND notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(notification))
            ORDER BY updated_at
        ) AS r
        LEFT JOIN tokens t ON t.id = r.token_id LEFT JOIN jobs j ON j.notification = r.notification AND j.number = r.number
        ORDER BY r.number, r."position"
        """
    }

    func fences(of installations: [PushID], since moment: Int64) -> PostgresQuery {
        """
        SELECT f.installation, f.epochs_below, f.created_at, f.published_at FROM unnest(\(installations)::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (
            SELECT * FROM fences WHERE app_id = \(app.id) AND installation = wanted.id AND created_at >= \(milliseconds: moment) ORDER BY id
        ) AS f ORDER BY f.id LIMIT 500
        """
    }

    func history(of installations: [PushID], since moment: Int64, for purpose: Purpose) -> PostgresQuery {
        """
        SELECT h.* FROM unnest(\(installations)::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (
            SELECT * FROM installation_history
            WHERE app_id = \(app.id) AND installation = wanted.id AND at >= \(milliseconds: moment)
                AND (purpose IS NULL OR purpose = \(purpose) OR purpose LIKE 'activity:%' AND \(purpose) LIKE 'channel:%')
            ORDER BY id LIMIT \(Self.maximumLines)
        ) AS h ORDER BY h.id
        """
    }

    /// Finds which of these members have no receipt.
    func members(_ members: [MemberSearch.Found], of notification: PushID) -> PostgresQuery {
        """
        SELECT delivery_id(j.notification, j.number, p."position"::integer) AS id, p.token_id,
            get_bit(j.ended, p."position"::integer) = 1 AS has_ended, j.due_at, j.published_at, t.token, t.environment
        FROM unnest(\(members.map(\.place.job))::bigint[], \(members.map(\.place.position))::bigint[], \(members.map(\.token))::bigint[])
            AS p (number, "position", token_id)
        CROSS JOIN LATERAL (
            SELECT *, p.token_id FROM jobs WHERE app_id = \(app.id) AND notification = \(notification) AND number = p.number LIMIT 1
        ) AS j
        JOIN tokens t ON t.id = j.token_id
        WHERE (
            SELECT count(*) = 0 FROM receipts r
            WHERE r.notification = j.notification AND r.number = j.number AND r."position" = p."position")
        ORDER BY p.number, p."position"
        """
    }

    /// A row if the notification has more jobs than the explanation reads.
    func jobHorizon(of notification: PushID) -> PostgresQuery {
        "SELECT number FROM jobs WHERE app_id = \(app.id) AND notification = \(notification) ORDER BY number OFFSET 20000 LIMIT 1"
    }
}
