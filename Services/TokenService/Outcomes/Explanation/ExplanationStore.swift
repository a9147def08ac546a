package import Postgres
package import PushModel
package import TokenServiceApps
import TokenServiceRegistry
import TokenServiceSending

/// The SQL that reads the events of one notification for one user.
package struct ExplanationStore {
    /// Installations of one user that the explanation reads.
    package static let maximumInstallations = 100

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
        var times: [PushID: [Int64: ExplanationFacts.Time]] = [:]
        for row in first[1] {
            times[try row["installation"], default: [:]][try row["owner_epoch"]] = ExplanationFacts.Time(
                from: try row.milliseconds("began_at"), to: try row.milliseconds("ended_at"), isNow: false)
        }
        for row in first[2] {
            let (id, epoch): (PushID, Int64) = (try row["id"], try row["owner_epoch"])
            let from = times[id]?[epoch]?.from
            times[id, default: [:]][epoch] = ExplanationFacts.Time(from: from, to: nil, isNow: true)
        }
        // Present installations of the user come before former ones.
        let ids = times.sorted { left, right in
            let (isLeft, isRight) = (left.value.values.contains { $0.isNow }, right.value.values.contains { $0.isNow })
            return isLeft == isRight ? left.key < right.key : isLeft
        }.prefix(Self.maximumInstallations).map(\.key).sorted()
        var facts = ExplanationFacts(
            user: user, notification: notification,
            quietHours: try QuietHoursStore(session: session, app: app).find(user),
            installations: ids.map { ExplanationFacts.Installation(id: $0, times: times[$0] ?? [:]) })
        facts.isCutShort = times.count > ids.count
        facts.holds = try first[3].map { row in try ExplanationFacts.Hold(row) }
        facts.credentials = try CredentialStore(session: session, app: app).credentials()
        if !ids.isEmpty { try load(ids, into: &facts) }
        return facts
    }

    private func load(_ ids: [PushID], into facts: inout ExplanationFacts) throws {
        let notification = facts.notification
        let resolvedAt = notification.expandedAt ?? notification.cancelledAt ?? notification.expiresAt
        let answers = try session.pipeline([
            states(of: ids, for: notification.id), tokens(of: ids, for: notification.purpose),
            receipts(of: ids, for: notification.id), fences(of: ids, since: notification.acceptedAt),
            history(of: ids, since: notification.acceptedAt), doubts(of: ids, for: notification.purpose, until: resolvedAt),
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
        for row in answers[5] {
            let entry = try HistoryEntry(row)
            byID[entry.installation]?.doubts.append(entry)
        }
        try loadMembers(of: notification, holders: holders, into: &byID, facts: &facts)
        facts.installations = ids.compactMap { byID[$0] }
    }

    /// Deliveries that have no receipt.
    private func loadMembers(
        of notification: ExplanationFacts.Notification, holders: [Int64: PushID],
        into installations: inout [PushID: ExplanationFacts.Installation], facts: inout ExplanationFacts
    ) throws {
        // A job cannot hold a token that was retired before. A token that moved away later was meant at its old installation.
        var holders = holders.filter { id, holder in
            installations[holder]?.tokens.contains { $0.id == id && ($0.retired?.at ?? .max) >= notification.acceptedAt } ?? false
        }
        for installation in installations.values {
            for move in installation.history where move.event == .tokenMovedAway && move.at > notification.expandedAt ?? .max {
                if let token = move.token?.id { holders[token] = installation.id }
            }
        }
        let places = try MemberSearch(session: session, app: app).places(of: Set(holders.keys), in: notification.id)
        let answers = try session.pipeline([members(places, of: notification.id), jobHorizon(of: notification.id)])
        for row in answers[0] {
            let (token, hasEnded): (Int64, Bool) = (try row["token_id"], try row["has_ended"])
            guard let holder = holders[token] else { continue }
            if !hasEnded {
                installations[holder]?.deliveries.append(try ExplanationFacts.Delivery(member: row, of: holder))
            } else if notification.receipts == .failures {
                installations[holder]?.counted.append(
                    ExplanationFacts.CountedDelivery(
                        tokenID: token, dueAt: try row.milliseconds("due_at"), publishedAt: try row.milliseconds("published_at")))
            }
        }
        if !answers[1].isEmpty { facts.isCutShort = true }
    }
}

extension ExplanationFacts.Installation {
    fileprivate mutating func set(_ row: PostgresRow) throws {
        signedOutReason = try row["signed_out_reason"]
        deregisteredAt = try row.milliseconds("deregistered_at")
        throttledUntil = try row.milliseconds("throttled_until")
        permission = try row["permission"]
        isNamed = try row["is_named"]
        namedEpoch = try row["named_epoch"]
        matchesTags = try row["matches_tags"]
        isLeftOutByPermission = try matchesTags == false && row["matches_with_another_permission"]
        localDueAt = try row.milliseconds("local_due_at")
        isAhead = try row["is_ahead"]
    }
}

extension ExplanationFacts.Delivery {
    fileprivate init(receipt row: PostgresRow) throws {
        let epoch: Int64 = try row["owner_epoch"]
        self.init(
            record: try NotificationStatus.Delivery(row, token: row["token"]), ownerEpoch: epoch > 0 ? epoch : nil,
            tokenID: try row["token_id"], dueAt: try row.milliseconds("due_at"), publishedAt: try row.milliseconds("published_at"))
    }

    /// One that is under way without a receipt.
    fileprivate init(member row: PostgresRow, of installation: PushID) throws {
        let dueAt: Int64 = try row.milliseconds("due_at")
        let record = NotificationStatus.Delivery(
            id: try row["id"], installation: installation, token: try row["token"], environment: try row["environment"], attempts: 0,
            updatedAt: dueAt)
        self.init(
            record: record, ownerEpoch: nil, tokenID: try row["token_id"], dueAt: dueAt, publishedAt: try row.milliseconds("published_at"))
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
            notBefore: try row.milliseconds("not_before"), localTime: try row["local_text"], expiresAt: try row.milliseconds("expires_at"),
            isUrgent: try row["is_urgent"], isFannedOut: try row["is_fanned_out"], expandedAt: try row.milliseconds("expanded_at"),
            completedAt: try row.milliseconds("completed_at"), cancelledAt: try row.milliseconds("cancelled_at"),
            cancelReason: try row["cancel_reason"], total: try row["total"], pending: try row["pending"],
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
            max(at) FILTER (WHERE event IN ('signed_out', 'deregistered')) AS ended_at
        FROM (
            SELECT installation, owner_epoch, at, event FROM installation_history WHERE app_id = \(app.id) AND owner = \(user)
            ORDER BY id DESC LIMIT 1000
        ) AS newest WHERE owner_epoch IS NOT NULL GROUP BY installation, owner_epoch
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

    func states(of installations: [PushID], for notification: PushID) -> PostgresQuery {
        """
        SELECT i.id, i.signed_out_reason, i.deregistered_at, i.permission,
            CASE WHEN i.throttled_until > now() THEN i.throttled_until END AS throttled_until,
            x.installation IS NOT NULL AS is_named, x.owner_epoch AS named_epoch,
            audience_words(i.tags, i.permission) @@ f.query AS matches_tags,
            EXISTS (
                SELECT FROM unnest(ARRAY['not_determined', 'provisional', 'denied', 'authorized', 'ephemeral',
                    'unknown']) AS other (permission)
                WHERE audience_words(i.tags, other.permission) @@ f.query) AS matches_with_another_permission,
            f.local_time AT TIME ZONE coalesce(z.name, 'UTC') AS local_due_at,
            coalesce(i.ordinal > f.checkpoint, false) AS is_ahead
        FROM unnest(\(installations)::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (SELECT * FROM installations WHERE app_id = \(app.id) AND id = wanted.id LIMIT 1) AS i
        LEFT JOIN fan_outs f ON f.app_id = \(app.id) AND f.notification = \(notification)
        LEFT JOIN time_zones z ON z.name = i.time_zone
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

    func history(of installations: [PushID], since moment: Int64) -> PostgresQuery {
        """
        SELECT h.* FROM unnest(\(installations)::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (
            SELECT * FROM installation_history
            WHERE app_id = \(app.id) AND installation = wanted.id AND at >= \(milliseconds: moment) ORDER BY id
        ) AS h ORDER BY h.id LIMIT 500
        """
    }

    /// A doubt lasts for a day after its line, and until the next sweep.
    func doubts(of installations: [PushID], for purpose: Purpose, until moment: Int64) -> PostgresQuery {
        """
        SELECT h.* FROM unnest(\(installations)::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (
            SELECT * FROM installation_history
            WHERE app_id = \(app.id) AND installation = wanted.id AND event = 'token_doubtful' AND purpose = \(purpose)
                AND at > \(milliseconds: moment)::timestamptz - interval '2 days' AND at <= \(milliseconds: moment)
            ORDER BY id DESC LIMIT 10
        ) AS h
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
