import Postgres
import PushModel
import TokenServiceApps

extension NotificationStore {
    /// Waits for no key: of those that another transaction is using (`is_claimed` is false) it claims none.
    ///
    /// A key has one record a day. Two transactions that use it on two sides of midnight, UTC, do not see each other's record. So in the
    /// first minutes of a day the statement claims a key for the day before as well.
    static func claimKeys(
        apps: [Int64], callers: [String], keys: [String], fingerprints: [[UInt8]], notifications: [PushID], warnings: [String]
    ) -> PostgresQuery {
        """
        WITH named AS MATERIALIZED (
            SELECT e.*, pg_try_advisory_xact_lock(idempotency_lock(e.app, e.caller, e.key)) AS is_free
            FROM unnest(\(apps)::bigint[], \(callers)::text[], \(keys)::text[], \(fingerprints)::bytea[], \(notifications)::uuid[],
                    \(warnings)::text[])
                AS e (app, caller, key, fingerprint, notification, warnings)
        ), asked AS (
            SELECT e.*, days.today, now() < days.today + interval '5 minutes' AS has_just_begun
            FROM named e, (SELECT date_trunc('day', now(), 'UTC') AS today) AS days
            WHERE e.is_free AND NOT EXISTS (
                SELECT FROM idempotency_records r
                WHERE r.app_id = e.app AND r.api_key_id = e.caller AND r.key = e.key
                    AND r.day >= date_trunc('day', now(), 'UTC') - interval '24 hours' AND r.day <> date_trunc('day', now(), 'UTC')
                    -- PostgreSQL's clock may have been set back since.
                    AND (r.day < now() OR EXISTS (SELECT FROM notifications n WHERE n.id = r.notification)) FOR KEY SHARE OF r)
        ), claimed_for_yesterday AS (
            INSERT INTO idempotency_records AS r (app_id, api_key_id, key, day, fingerprint, notification, warnings)
            SELECT app, caller, key, today - interval '24 hours', fingerprint, notification, warnings FROM asked WHERE has_just_begun
            ON CONFLICT (app_id, api_key_id, key, day) DO UPDATE SET warnings = r.warnings WHERE false
            RETURNING notification
        ), claimed AS (
            INSERT INTO idempotency_records AS r (app_id, api_key_id, key, day, fingerprint, notification, warnings)
            SELECT app, caller, key, today, fingerprint, notification, warnings FROM asked
            WHERE NOT has_just_begun OR notification IN (SELECT notification FROM claimed_for_yesterday)
            -- Locks the record, so that its notification is not removed meanwhile.
            ON CONFLICT (app_id, api_key_id, key, day) DO UPDATE SET warnings = r.warnings WHERE false
            RETURNING notification
        )
        SELECT notification, true AS is_claimed FROM claimed UNION ALL SELECT notification, false FROM named WHERE NOT is_free
        """
    }

    /// Deletes the keys of notifications that were refused after they had claimed them.
    static func forgetKeys(of notifications: Set<PushID>) -> [PostgresQuery] {
        notifications.isEmpty ? [] : ["DELETE FROM idempotency_records WHERE notification = ANY (\(notifications.sorted()))"]
    }

    /// The targets' tokens, the notifications and their jobs in one statement, which is one view of the registry. Fan-out takes a user with
    /// more tokens or more installations, with a token or without, than ``maximumResolved``, so that an acceptance stays short: it reads no
    /// more. Fan-out also takes a user with quiet hours, so that no delivery has to wait in an acceptance.
    ///
    /// The first list is a subquery, so that the planner does not see its length. Else it would plan each single notification anew, which
    /// takes longer than all the rest.
    ///
    /// - Returns: a row for each delivery, in the order of the places, with the columns of ``delivery(_:id:)``, notification, place and
    ///   is_fanned_out.
    static func insertResolved(_ items: [Item]) -> PostgresQuery {
        let notifications = items.map(\.notification)
        let requests = notifications.map(\.request)
        return """
            WITH item AS (
                SELECT * FROM unnest(
                    (SELECT \(notifications.map(\.id))::uuid[]), \(items.map(\.app.id))::bigint[], \(requests.map(\.target.user))::text[],
                    \(requests.map(\.target.installation))::uuid[], \(requests.map(\.lane.rawValue))::text[],
                    \(requests.map(\.pushType.rawValue))::text[], \(notifications.map(\.topic))::text[],
                        \(requests.map(\.priority))::bigint[],
                    \(requests.map(\.collapseID))::text[], \(requests.map(\.apnsExpiration))::bigint[],
                    \(requests.map(\.onUnknown.rawValue))::text[], \(requests.map(\.content.payload))::bytea[],
                    \(notifications.map(\.traceparent))::text[], \(milliseconds: notifications.map(\.acceptedAt))::timestamptz[],
                    \(milliseconds: requests.map(\.expiresAt))::timestamptz[], \(requests.map(\.purpose.rawValue))::text[],
                    \(items.map(\.leaseSeconds))::float8[], \(items.map { $0.app.environments.count > 1 })::bool[],
                    \(requests.map(\.timing.isUrgent))::bool[], \(requests.map(\.deviceReceipts))::bool[],
                    \(items.map(\.reachesNoDevice))::bool[])
                AS item (id, app_id, target_user, target_installation, lane, push_type, topic, priority, collapse_id, apns_expiration,
                    on_unknown, payload, traceparent, accepted_at, expires_at, purpose, lease, may_try, is_urgent,
                    device_receipts, reaches_no_device)
            ), found AS (
                SELECT item.id AS notification, item.app_id, item.lane, item.may_try, item.accepted_at, item.lease, f.*,
                    row_number() OVER (PARTITION BY item.id ORDER BY f.id) - 1 AS place,
                    count(*) OVER own AS total,
                    count(*) OVER own > \(Self.maximumResolved) OR bool_or(f.is_beyond OR f.may_be_quiet) OVER own AS is_fanned_out,
                    min(f.owner_epoch) OVER own AS epoch
                FROM item CROSS JOIN LATERAL (
                    SELECT t.id, t.token, t.environment, i.id AS installation, i.owner_epoch, t.proven_at IS NULL AS unproven, i.is_beyond,
                        NOT item.is_urgent AND (
                            SELECT count(*) > 0 FROM quiet_hours q WHERE q.app_id = item.app_id AND q.owner = i.owner) AS may_be_quiet
                    FROM (
                        (SELECT o.id, o.ordinal, o.owner, o.owner_epoch, row_number() OVER () > \(Self.maximumResolved) AS is_beyond
                        FROM installations o WHERE o.app_id = item.app_id AND o.owner = item.target_user LIMIT \(Self.maximumResolved) + 1)
                        UNION ALL
                        SELECT o.id, o.ordinal, o.owner, o.owner_epoch, false FROM installations o
                        WHERE o.app_id = item.app_id AND o.id = item.target_installation
                    ) i
                    LEFT JOIN LATERAL (
                        SELECT * FROM tokens
                        WHERE app_id = item.app_id AND ordinal = i.ordinal AND purpose = item.purpose AND state = 'active'
                        ORDER BY environment
                    ) t ON true
                    -- Of a user with too many installations there is a row in any case.
                    WHERE NOT item.reaches_no_device AND (t.id IS NOT NULL OR i.is_beyond)
                    LIMIT \(Self.maximumResolved) + 1
                ) f
                WINDOW own AS (PARTITION BY item.id)
            ), counted AS (
                SELECT notification, total::int, is_fanned_out, epoch FROM found WHERE place = 0
            ), made AS (
                INSERT INTO notifications (id, app_id, target_user, target_installation, target_epoch, lane, push_type, purpose, topic,
                    priority,
                    collapse_id, apns_expiration, on_unknown, payload, traceparent, is_urgent, device_receipts, accepted_at, expires_at,
                    state, total, pending, jobs, completed_at, is_reported)
                SELECT item.id, app_id, target_user, target_installation, CASE WHEN target_installation IS NOT NULL THEN epoch END, lane,
                    push_type, purpose, topic, priority::smallint, collapse_id, apns_expiration, on_unknown, payload, traceparent,
                        is_urgent,
                    device_receipts, accepted_at, expires_at,
                    CASE WHEN total IS NULL THEN 'no_targets' WHEN is_fanned_out THEN 'accepted' ELSE 'sending' END,
                    CASE WHEN is_fanned_out THEN 0 ELSE coalesce(total, 0) END, CASE WHEN is_fanned_out THEN 0 ELSE coalesce(total, 0) END,
                    CASE WHEN is_fanned_out THEN 0 ELSE (coalesce(total,
                        0) + \(PushJob.maximumDeliveries) - 1) / \(PushJob.maximumDeliveries) END,
                    CASE WHEN total IS NULL THEN accepted_at END,
                    (SELECT a.reports_notifications FROM apps a WHERE a.id = item.app_id)
                FROM item LEFT JOIN counted ON counted.notification = item.id
            ), left_to_fan_out AS (
                INSERT INTO fan_outs (notification, app_id, lane, target, entries, due_at, free_from)
                SELECT item.id, item.app_id, lane, CASE WHEN target_user IS NULL THEN 'installation'
                    ELSE 'user' END, 1, least(accepted_at, now()), now()
                FROM item JOIN counted ON counted.notification = item.id WHERE is_fanned_out
            ), jobs_made AS (
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, sandbox, free_from)
                SELECT notification, number, app_id, lane, '', accepted_at, string_agg(int8send(id), ''::bytea ORDER BY place),
                    coalesce(bit_or(set_bit(B'0'::bit(100), (place % \(PushJob.maximumDeliveries))::int, 1))
                        FILTER (WHERE environment = 'sandbox'), B'0'::bit(100)),
                    now() + make_interval(secs => lease)
                FROM (SELECT *, place / \(PushJob.maximumDeliveries) AS number FROM found WHERE NOT is_fanned_out) AS placed
                GROUP BY notification, number, app_id, lane, accepted_at, lease
            )
            SELECT notification, place, token, environment, installation, owner_epoch, unproven AND may_try AS may_try, is_fanned_out
            FROM found ORDER BY notification, place
            """
    }

    /// Fan-out finds its targets later, page by page; ``insertTargets(of:)`` stores the names of a list. Any process may begin with it when
    /// it is due. A notification that is due at once does not wait for the accepting process's clock.
    static func insertForFanOut(_ item: Item) -> [PostgresQuery] {
        let notification = item.notification
        let request = notification.request
        let (id, app, target) = (notification.id, item.app.id, request.target)
        let (notBefore, localTime) = (request.timing.notBefore, request.timing.localTime?.description)
        var queries: [PostgresQuery] = [
            """
            WITH moment AS (
                SELECT *, coalesce(not_before, local_time AT TIME ZONE 'Etc/GMT-14', least(accepted_at, now())) AS due_at
                FROM (
                    SELECT \(milliseconds: notification.acceptedAt)::timestamptz AS accepted_at,
                        \(milliseconds: notBefore)::timestamptz AS not_before, \(localTime)::text::timestamp AS local_time
                ) AS asked
            ), left_to_fan_out AS (
                INSERT INTO fan_outs (notification, app_id, lane, target, entries, tags, query, not_before, local_time, lifetime_ms, due_at,
                    free_from)
                SELECT \(id), \(app), \(request.lane), \(target.kind), \(target.count)::bigint, \(target.tags?.description),
                    \(target.tags?.searchText)::text::tsquery, not_before, local_time, \(request.timing.lifetime),
                    coalesce(\(milliseconds: item.waitsUntil)::timestamptz, due_at),
                    greatest(now(), coalesce(\(milliseconds: item.waitsUntil)::timestamptz, due_at))
                FROM moment
            )
            INSERT INTO notifications (id, app_id, target_user, target_installation, target_epoch, lane, push_type, purpose, topic,
                priority,
                collapse_id, apns_expiration, on_unknown, payload, traceparent, receipts, is_urgent, device_receipts, accepted_at,
                    expires_at,
                supersede_key, state, total, pending, is_reported)
            SELECT \(id), \(app), \(target.user), \(target.installation),
                (SELECT owner_epoch FROM installations WHERE app_id = \(app) AND id = \(target.installation)),
                \(request.lane), \(request.pushType), \(request.purpose), \(notification.topic), \(request.priority)::bigint::smallint,
                    \(request.collapseID),
                \(request.apnsExpiration), \(request.onUnknown.rawValue), \(request.content.payload), \(notification.traceparent),
                \(request.keptReceipts.rawValue), \(request.timing.isUrgent), \(request.deviceReceipts), accepted_at,
                    \(milliseconds: request.expiresAt),
                \(request.supersedeKey), CASE WHEN due_at > accepted_at THEN 'scheduled' ELSE 'accepted' END, 0, 0,
                (SELECT reports_notifications FROM apps WHERE id = \(app))
            FROM moment
            """
        ]
        if let supersession = supersession(of: item) { queries.append(CancellationOutbox.supersede(supersession, with: id)) }
        let variants = request.content.variants
        if !variants.isEmpty {
            queries.append(
                """
                INSERT INTO notification_variants (notification, locale, payload)
                SELECT \(id), * FROM unnest(\(variants.map(\.locale))::text[], \(variants.map(\.payload))::bytea[])
                """)
        }
        return queries
    }

    /// Older notifications in the same app with the same key and target.
    struct Supersession {
        let app: App.ID
        let key: String
        let target: String
    }

    private static func supersession(of item: Item) -> Supersession? {
        let request = item.notification.request
        guard let key = request.supersedeKey, let target = request.target.user ?? request.target.installation?.description else {
            return nil
        }
        return Supersession(app: item.app.id, key: key, target: target)
    }

    /// Two notifications that would supersede each other come one after the other: the later to commit is the newer one. A batch takes all
    /// locks at once and in one order, before all other rows. The first half of their keys is the word "sup".
    static func supersessionLocks(_ items: [Item]) -> [PostgresQuery] {
        let superseded = items.compactMap(supersession)
        guard !superseded.isEmpty else { return [] }
        return [
            """
            SELECT count(pg_advisory_xact_lock(7566704, place)) FROM (
                SELECT DISTINCT hashtext(concat_ws(' ', app, key, target)) AS place
                FROM unnest(\(superseded.map(\.app))::bigint[], \(superseded.map(\.key))::text[], \(superseded.map(\.target))::text[])
                    AS e (app, key, target) ORDER BY place
            ) AS ordered
            """
        ]
    }
}

extension NotificationRequest {
    /// One user's or installation's tokens, one payload, due now: the acceptance itself finds them. Fan-out finds any others.
    var isResolvedAtOnce: Bool {
        switch target {
        case .user, .installation: isOnePayload && timing.notBefore == nil && timing.localTime == nil && supersedeKey == nil
        case .users, .installations, .tokens, .tags, .all, .channel: false
        }
    }

    /// Whether its deliveries have one payload, and each has a receipt.
    var isOnePayload: Bool { content.variants.isEmpty && receipts != .failures }

    /// Every receipt if the sender named the addressees; counters for an audience, which is large or of unknown size.
    var keptReceipts: Receipts {
        if let receipts { return receipts }
        if case .channel(_, nil) = target { return .all }
        return target.count == nil || target.isLong ? .failures : .all
    }
}

extension NotificationRequest.Target {
    var user: String? { if case .user(let name) = self { name } else { nil } }
    var installation: PushID? { if case .installation(let id) = self { id } else { nil } }
    fileprivate var tags: TagExpression? { if case .tags(let expression) = self { expression } else { nil } }

    fileprivate var kind: NotificationAddress.Kind {
        switch self {
        case .user: .user
        case .users: .users
        case .installation: .installation
        case .installations: .installations
        case .tokens: .tokens
        case .tags: .tags
        case .all: .all
        case .channel(_, let fallback): fallback == nil ? .channel : .channelAndActivities
        }
    }
}
