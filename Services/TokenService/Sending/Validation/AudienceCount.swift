package import Postgres
import PushModel
package import TokenServiceApps
import TokenServiceRegistry

/// Counts the devices that a target would reach. It reads the registry as it is now; a scheduled notification may find another one.
///
/// Limits are written out, as in ``InstallationStore``: 10,000 is ``AudienceEstimate/maximumDevices``.
package struct AudienceCount {
    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    package func estimate(_ request: NotificationRequest) throws -> AudienceEstimate {
        var estimate = AudienceEstimate(devices: [:], deliveries: 0, displays: [:], isLowerBound: false)
        var counted = 0
        // The reason `more` means that not every device was read.
        for row in try session.execute(try query(for: request)) {
            let (name, devices, tokens): (String, Int, Int) = (try row["reason"], try row["devices"], try row["tokens"])
            guard name != "more" else {
                estimate.isLowerBound = true
                continue
            }
            guard let reason = AudienceEstimate.Reason(rawValue: name) else { throw CorruptRow(table: "installations") }
            estimate.devices[reason, default: 0] += devices
            if reason.effect != .notSent {
                estimate.displays?[AlertDisplay(try row["permission"]), default: 0] += devices
                estimate.unknownTimeZones += try row["in_utc"]
            }
            estimate.deliveries += tokens
            counted += devices
        }
        if counted >= AudienceEstimate.maximumDevices { estimate.isLowerBound = true }
        if request.pushType != .alert { estimate.displays = nil }
        return estimate
    }

    /// - Returns: a row for each reason and permission.
    private func query(for request: NotificationRequest) throws -> PostgresQuery {
        if case .activity(let id) = request.activity?.subject, request.activity?.event != .start,
            let owner = UpdateTarget.Owner(user: request.target.user, orInstallation: request.target.installation),
            try ActivityReading(session: session, app: app).record(of: owner, id) == nil
        {
            return users([], for: request)
        }
        return switch request.target {
        case .user(let name): users([name], for: request)
        case .users(let names): users(names, for: request)
        case .installation(let id): installations([id], for: request)
        case .installations(let ids): installations(ids, for: request)
        case .tokens(let tokens): self.tokens(tokens.map(\.bytes), for: request)
        case .all: first(matching: nil, for: request)
        // The platform does not know who follows it.
        case .channel: users([], for: request)
        case .tags(let expression):
            // The index on tags would read every installation that has a common one.
            if let needed = expression.neededTags,
                try session.execute(InstallationStore.estimateTagged(needed)).only()["estimate"] <= FanOutStore.maximumRare
            {
                tagged(needed, matching: expression.searchText, for: request)
            } else {
                first(matching: expression.searchText, for: request)
            }
        }
    }

    private func users(_ names: [String], for request: NotificationRequest) -> PostgresQuery {
        let timing = request.timing
        return """
            SELECT coalesce(r.reason, 'unknown_user') AS reason, (i).permission, count(*) AS devices,
                coalesce(sum(r.tokens), 0)::bigint AS tokens, count(*) FILTER (WHERE r.counts_as_utc) AS in_utc
            FROM (
                SELECT i FROM unnest(\(names)::text[]) AS u (name)
                LEFT JOIN installations i ON i.app_id = \(app.id) AND i.owner = u.name LIMIT 10000
            ) AS asked
            LEFT JOIN LATERAL reach_of(
                i, \(request.purpose), \(timing.isUrgent), \(milliseconds: timing.notBefore),
                \(timing.localTime?.description)::text::timestamp) AS r ON i IS DISTINCT FROM NULL
            GROUP BY 1, 2
            """
    }

    private func installations(_ ids: [PushID], for request: NotificationRequest) -> PostgresQuery {
        let timing = request.timing
        return """
            SELECT CASE WHEN (i).deregistered_at IS NOT NULL THEN 'deregistered'
                ELSE coalesce(r.reason, 'unknown_installation') END AS reason,
                (i).permission, count(*) AS devices, coalesce(sum(r.tokens), 0)::bigint AS tokens,
                count(*) FILTER (WHERE r.counts_as_utc) AS in_utc
            FROM (
                SELECT i FROM unnest(\(ids)::uuid[]) AS u (id) LEFT JOIN installations i ON i.app_id = \(app.id) AND i.id = u.id
            ) AS asked
            LEFT JOIN LATERAL reach_of(
                i, \(request.purpose), \(timing.isUrgent), \(milliseconds: timing.notBefore),
                \(timing.localTime?.description)::text::timestamp) AS r ON i IS DISTINCT FROM NULL
            GROUP BY 1, 2
            """
    }

    /// A device whose tokens are listed counts once; of tokens that reach no device, each counts.
    private func tokens(_ tokens: [[UInt8]], for request: NotificationRequest) -> PostgresQuery {
        let (timing, purpose) = (request.timing, request.purpose)
        return """
            SELECT reason, permission, count(DISTINCT ordinal) + count(*) FILTER (WHERE ordinal IS NULL) AS devices,
                count(ordinal) AS tokens,
                count(DISTINCT ordinal) FILTER (WHERE counts_as_utc) AS in_utc
            FROM (
                SELECT live.ordinal, live.permission, live.counts_as_utc, coalesce(live.reason, (
                    SELECT CASE WHEN bool_or(t.state = 'doubtful') THEN 'token_doubtful'
                        WHEN bool_or(t.quarantined_at IS NOT NULL) THEN 'quarantined' WHEN count(*) > 0 THEN 'token_retired' END
                            FROM tokens t
                    WHERE t.app_id = \(app.id) AND t.token = u.token AND t.purpose = \(purpose)),
                    CASE WHEN EXISTS (SELECT FROM tokens t WHERE t.app_id = \(app.id) AND t.token = u.token)
                        THEN 'other_purpose' ELSE 'unknown_token' END) AS reason
                FROM unnest(\(tokens)::bytea[]) AS u (token) LEFT JOIN LATERAL (
                    SELECT i.ordinal, i.permission, r.reason, r.counts_as_utc
                    FROM tokens t JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation
                    CROSS JOIN LATERAL reach_of(
                        i, \(purpose), \(timing.isUrgent), \(milliseconds: timing.notBefore),
                        \(timing.localTime?.description)::text::timestamp) AS r
                    -- IS TRUE: by the token, of all indexes that begin with the app.
                    WHERE t.app_id = \(app.id) AND t.token = u.token AND (t.purpose = \(purpose) AND t.state = 'active') IS TRUE
                ) AS live ON true
            ) AS judged GROUP BY reason, permission
            """
    }

    /// The first installations of the app: for the whole app, and for an expression that many installations may match.
    private func first(matching search: String?, for request: NotificationRequest) -> PostgresQuery {
        let timing = request.timing
        return """
            WITH asked AS MATERIALIZED (SELECT * FROM installations WHERE app_id = \(app.id) ORDER BY id LIMIT 10000)
            SELECT r.reason, i.permission, count(*) AS devices, sum(r.tokens)::bigint AS tokens,
                count(*) FILTER (WHERE r.counts_as_utc) AS in_utc
            FROM asked a JOIN installations i ON i.app_id = a.app_id AND i.id = a.id
            CROSS JOIN LATERAL reach_of(
                i, \(request.purpose), \(timing.isUrgent), \(milliseconds: timing.notBefore),
                \(timing.localTime?.description)::text::timestamp) AS r
            WHERE a.deregistered_at IS NULL
                AND (\(search)::text IS NULL OR audience_words(a.tags, a.permission) @@ \(search)::text::tsquery)
            GROUP BY r.reason, i.permission
            UNION ALL SELECT 'more', NULL, 0, 0, 0 WHERE (SELECT count(*) FROM asked) >= 10000
            """
    }

    /// Counts by the index on tags. Every match has one of the tags that are needed. The index holds the tags of every app, in no order.
    private func tagged(_ needed: [String], matching search: String, for request: NotificationRequest) -> PostgresQuery {
        let timing = request.timing
        return """
            WITH found AS MATERIALIZED (
                SELECT app_id, id, tags, permission, deregistered_at FROM installations WHERE tags && \(needed) AND tags <> '{}' LIMIT 50000
            ), asked AS MATERIALIZED (
                SELECT app_id, id FROM found
                WHERE app_id = \(app.id) AND deregistered_at IS NULL AND audience_words(tags, permission) @@ \(search)::text::tsquery
                LIMIT 10000
            )
            SELECT r.reason, i.permission, count(*) AS devices, sum(r.tokens)::bigint AS tokens,
                count(*) FILTER (WHERE r.counts_as_utc) AS in_utc
            FROM asked a JOIN installations i ON i.app_id = a.app_id AND i.id = a.id
            CROSS JOIN LATERAL reach_of(
                i, \(request.purpose), \(timing.isUrgent), \(milliseconds: timing.notBefore),
                \(timing.localTime?.description)::text::timestamp) AS r
            GROUP BY r.reason, i.permission
            UNION ALL SELECT 'more', NULL, 0, 0, 0 WHERE (SELECT count(*) FROM found) >= 50000
            """
    }

    /// Whether the expression names a word, as a tag of the backend, that apps report as a tag of their own. The index on tags would read
    /// every installation that has a common word, so a common one is looked for at the app's first 10,000 installations.
    package func namesTagsOfApps(_ expression: TagExpression) throws -> Bool {
        let words = InstallationTags.words(tags: [], appTags: expression.backendTags.sorted())
        guard !words.isEmpty else { return false }
        guard try session.execute(InstallationStore.estimateTagged(words)).only()["estimate"] <= FanOutStore.maximumRare else {
            return try session.execute(
                """
                SELECT count(*) > 0 AS is_named FROM (
                    SELECT FROM (SELECT tags FROM installations WHERE app_id = \(app.id) ORDER BY id LIMIT 10000) AS first
                    WHERE tags && \(words) LIMIT 1
                ) AS found
                """
            ).only()["is_named"]
        }
        return try session.execute(
            """
            WITH found AS MATERIALIZED (SELECT app_id FROM installations WHERE tags && \(words) AND tags <> '{}' LIMIT 50000)
            SELECT count(*) > 0 AS is_named FROM found WHERE app_id = \(app.id)
            """
        ).only()["is_named"]
    }

    /// Counts the background pushes of the last hour among the newest hundred notifications to each user or installation that a target
    /// names alone. Zero for every other target: there the count would cost more than it is worth. Ids are in the order of time.
    package func recentBackgroundPushes(_ targets: [NotificationRequest.Target], now: Int64) throws -> [Int] {
        let since = PushID(high: UInt64(max(0, now - 3_600_000)) << 16, low: 0)
        // By bytes (``ExactText``).
        var (users, installations): ([[UInt8]: String], Set<PushID>) = ([:], [])
        for target in targets {
            switch target {
            case .user(let name): users[Array(name.utf8)] = name
            case .installation(let id): installations.insert(id)
            case .users, .installations, .tokens, .tags, .all, .channel: break
            }
        }
        let ofUsers = try counts(
            """
            SELECT e.target, count(*) AS recent FROM unnest(\(Array(users.values))::text[]) AS e (target) CROSS JOIN LATERAL (
                SELECT push_type FROM notifications
                WHERE app_id = \(app.id) AND target_user = e.target AND id >= \(since) ORDER BY id DESC LIMIT 100
            ) AS n WHERE n.push_type = 'background' GROUP BY e.target
            """, of: users.count
        ) { row in Array((try row["target"] as String).utf8) }
        let ofInstallations: [PushID: Int] = try counts(
            """
            SELECT e.target, count(*) AS recent FROM unnest(\(installations.sorted())::uuid[]) AS e (target) CROSS JOIN LATERAL (
                SELECT push_type FROM notifications
                WHERE app_id = \(app.id) AND target_installation = e.target AND id >= \(since) ORDER BY id DESC LIMIT 100
            ) AS n WHERE n.push_type = 'background' GROUP BY e.target
            """, of: installations.count
        ) { row in try row["target"] }
        return targets.map { target in
            switch target {
            case .user(let name): ofUsers[Array(name.utf8)] ?? 0
            case .installation(let id): ofInstallations[id] ?? 0
            case .users, .installations, .tokens, .tags, .all, .channel: 0
            }
        }
    }

    private func counts<Key: Hashable>(
        _ query: PostgresQuery, of targets: Int, by key: (PostgresRow) throws -> Key
    ) throws -> [Key: Int] {
        guard targets > 0 else { return [:] }
        return Dictionary(uniqueKeysWithValues: try session.execute(query).map { row in (try key(row), try row["recent"]) })
    }
}
