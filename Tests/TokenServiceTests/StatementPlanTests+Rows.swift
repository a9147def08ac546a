import Postgres

extension StatementPlanTests {
    /// Installations with these numbers, with all that belongs to them, and half as many notifications. Nearly all are of one app.
    static func fill(_ numbers: ClosedRange<Int64>, _ session: PostgresSession) throws {
        try session.transaction { session in
            for query in registryRows(numbers) + notificationRows(numbers) { try session.execute(query) }
        }
    }

    /// One notification, with so many jobs, each with a receipt and a receipt of its device.
    static func fillWithOneNotification(_ jobs: Int64, _ session: PostgresSession) throws {
        try session.transaction { session in
            for query in registryRows(1...1) + notificationRows(1...1) { try session.execute(query) }
            try session.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from, published_at)
                SELECT id, n, app_id, lane, '', now(), int8send(n), now(), now() FROM notifications, generate_series(1, \(jobs)) AS n
                """)
            try session.execute(
                """
                INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, status,
                    attempts,
                    updated_at)
                SELECT notification, number, 0, number, md5('i' || number)::uuid, 1, 'production', 'accepted', 200, 1, now() FROM jobs
                    WHERE number > 0
                """)
            try session.execute(
                """
                INSERT INTO device_receipts (notification, number, position, event, app_id, installation, owner_epoch, at)
                SELECT notification, number, 0, 'shown', 1, installation, 1, now() FROM receipts
                """)
        }
    }

    private static func registryRows(_ numbers: ClosedRange<Int64>) -> [PostgresQuery] {
        let (first, last) = (numbers.lowerBound, numbers.upperBound)
        return [
            """
            INSERT INTO apps (slug, bundle_id, device_policy, environments)
            SELECT 'app-' || n, 'com.example.app', 'multi', '{production,sandbox}' FROM generate_series(1, 3) AS n ON CONFLICT DO NOTHING
            """,
            """
            INSERT INTO installations (app_id, id, owner, owner_epoch, tags, created_at, registered_at)
            SELECT CASE n % 20 WHEN 0 THEN 2 WHEN 1 THEN 3 ELSE 1 END, md5('i' || n)::uuid, CASE WHEN n % 10 <> 0
                THEN 'u' || n / 2 END, 1 + n % 3,
                CASE n % 4 WHEN 0 THEN ARRAY['vip', 't' || n % 50] ELSE '{}' END, now(), now()
            FROM generate_series(\(first)::bigint, \(last)::bigint) AS n
            """,
            """
            INSERT INTO tokens (app_id, installation, ordinal, environment, purpose, token, state, registered_at, retired_at,
                retired_reason,
                proven_at)
            SELECT app_id, id, ordinal, CASE ordinal % 50 WHEN 0 THEN 'sandbox' ELSE 'production' END,
                CASE ordinal % 30 WHEN 1 THEN 'voip' ELSE 'alert' END, sha256(uuid_send(id)),
                CASE ordinal % 10 WHEN 7 THEN 'retired' ELSE 'active' END, now(), CASE ordinal % 10 WHEN 7 THEN now() END,
                CASE ordinal % 10 WHEN 7 THEN 'gone' END, now()
            FROM installations WHERE created_at = now()
            """,
            """
            INSERT INTO installation_history (app_id, installation, at, event, owner_epoch, owner, token_id)
            SELECT app_id, id, now(), CASE ordinal % 20 WHEN 3 THEN 'token_moved_away' ELSE 'registered' END, owner_epoch, owner, ordinal
            FROM installations WHERE created_at = now()
            """,
            """
            INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from, published_at)
            SELECT app_id, id, owner_epoch, now(), now(), CASE WHEN ordinal % 200 <> 0 THEN now() END
            FROM installations WHERE created_at = now() AND ordinal % 4 = 0
            """,
            """
            INSERT INTO token_moves (app_id, predecessor, successor, moved_at)
            SELECT app_id, id, next, now() FROM (
                SELECT app_id, id, ordinal, lead(id) OVER (PARTITION BY app_id ORDER BY ordinal) AS next FROM installations
                    WHERE created_at = now()
            ) AS made WHERE next IS NOT NULL AND ordinal % 10 = 0
            """,
            """
            INSERT INTO sign_outs (app_id, digest, signed_out_at)
            SELECT 1 + n % 3, sha256(n::text::bytea), now() - n * interval '1 second'
            FROM generate_series(\(first)::bigint, \(last)::bigint) AS n
            """,
            """
            INSERT INTO audit (action, key_id, app, object)
            SELECT CASE n % 50 WHEN 0 THEN 'key.created' ELSE 'tokens.read' END, 'k' || n % 20, CASE WHEN n % 100 <> 0
                THEN 'app-' || n % 3 END,
                'o' || n
            FROM generate_series(\(first)::bigint, \(last)::bigint) AS n
            """,
            """
            INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at)
            SELECT 1, 'q' || n, '22:00', '07:00', now() FROM generate_series(\(first)::bigint, \(last)::bigint, 20) AS n
            """,
        ]
    }

    private static func notificationRows(_ numbers: ClosedRange<Int64>) -> [PostgresQuery] {
        let (first, last) = (numbers.lowerBound, numbers.upperBound)
        return [
            """
            INSERT INTO notifications (id, app_id, target_user, target_installation, target_epoch, lane, push_type, purpose, topic,
                priority,
                on_unknown, payload, traceparent, accepted_at, expires_at, state, total, pending, jobs, completed_at, supersede_key)
            SELECT overlay(md5('n' || n)::uuid::text PLACING left(first_id_at(now())::text, 14) FROM 1)::uuid,
                CASE n % 40 WHEN 1 THEN 2 WHEN 3 THEN 3 ELSE 1 END, CASE WHEN n % 10 < 6 THEN 'u' || n END,
                CASE n % 10 WHEN 7 THEN md5('i' || n)::uuid END, CASE n % 10 WHEN 7 THEN 1 END,
                CASE WHEN n % 20 = 9 THEN 'bulk' ELSE 'now' END, 'alert', 'alert', 'com.example', 10, 'resend', '{}', '', now(),
                now() + interval '1 hour', CASE WHEN n % 50 = 1 THEN 'sending' ELSE 'completed' END, 1, (n % 50 = 1)::int, 1,
                CASE WHEN n % 50 <> 1 THEN now() END, CASE n % 20 WHEN 3 THEN 'k' || n % 500 END
            FROM generate_series(\(first)::bigint, \(last)::bigint, 2) AS n
            """,
            """
            INSERT INTO fan_outs (notification, app_id, lane, target, entries, due_at, free_from, ended_at)
            SELECT id, app_id, lane, CASE lane WHEN 'bulk' THEN 'all' ELSE 'users' END, CASE WHEN lane <> 'bulk' THEN 2 END, now(),
                CASE WHEN state = 'sending' THEN now() END, CASE WHEN state <> 'sending' THEN now() END
            FROM notifications WHERE accepted_at = now() AND num_nonnulls(target_user, target_installation) = 0
            """,
            """
            INSERT INTO targets (notification, place, app_id, owner)
            SELECT f.notification, place, 1, 'u' || get_byte(sha256(uuid_send(f.notification)), 0) + place
            FROM fan_outs f, generate_series(1, 2) AS place WHERE f.due_at = now() AND f.entries IS NOT NULL
            """,
            """
            INSERT INTO cancellations (notification, at, reason, published_at)
            SELECT id, now(), 'superseded', now() FROM notifications WHERE accepted_at = now() AND supersede_key IS NOT NULL
            """,
            """
            INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, ended, free_from, published_at)
            SELECT id, 0, app_id, lane, '', now(), int8send(row_number() OVER ()), set_bit(B'0'::bit(100), 0, (state <> 'sending')::int),
                now(),
                CASE WHEN state <> 'sending' THEN now() END
            FROM notifications WHERE accepted_at = now()
            """,
            """
            INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, status, attempts,
                updated_at)
            SELECT j.notification, 0, 0, t.id, t.installation, 1, 'production', 'accepted', 200, 1, now()
            FROM jobs j JOIN tokens t ON t.id = member_at(j.members, 0) WHERE j.due_at = now() AND j.published_at IS NOT NULL
            """,
            """
            INSERT INTO notification_variants (notification, locale, payload)
            SELECT id, locale, '{}' FROM notifications, unnest(ARRAY['de', 'fr']) AS locale WHERE accepted_at = now() AND lane = 'bulk'
            """,
            """
            INSERT INTO webhooks (id, app_id, url, events, secret)
            SELECT md5('w' || n)::uuid, 1, 'https://hooks.example.com/', '{*}', sha256('') FROM generate_series(1, 5) AS n
                ON CONFLICT DO NOTHING
            """,
            """
            INSERT INTO webhook_messages (webhook, id, topic, body, state, created_at, due_at, settled_at)
            SELECT w.id, n.id, 'notification.completed', '{}', s.state, now(), now(), CASE WHEN s.state <> 'pending' THEN now() END
            FROM notifications n JOIN webhooks w ON w.id = md5('w' || 1 + get_byte(uuid_send(n.id), 15) % 5)::uuid,
                LATERAL (SELECT CASE get_byte(uuid_send(n.id), 14) % 50 WHEN 0 THEN 'failed' WHEN 1 THEN 'pending'
                    ELSE 'delivered' END AS state) AS s
            WHERE n.accepted_at = now()
            """,
            """
            INSERT INTO idempotency_records (app_id, api_key_id, key, day, fingerprint, notification)
            SELECT app_id, 'key', 'k' || id, date_trunc('day', now(), 'UTC'), sha256(uuid_send(id)), id
            FROM notifications WHERE accepted_at = now()
            """,
            """
            INSERT INTO notification_events (app_id, notification, event, at)
            SELECT app_id, id, 'accepted', now() FROM notifications WHERE accepted_at = now()
            """,
            """
            INSERT INTO outcome_counts (app_id, minute, class, count)
            SELECT app, now() - n * interval '1 minute', 'accepted', 1 FROM generate_series(1, 3) AS app, generate_series(1, 10000) AS n
            """,
        ]
    }
}
