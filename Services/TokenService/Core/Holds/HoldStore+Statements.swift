import Postgres

extension HoldStore {
    static let mayInsert: PostgresStatement = """
        SELECT $2::uuid IS NULL OR EXISTS (SELECT FROM notifications WHERE id = $2 AND app_id = $1::bigint)
        """
    static let insert: PostgresStatement = """
        INSERT INTO holds (id, app_id, lane, notification, reason, set_at, set_by, ends_at)
        SELECT $1, $2::bigint, $3::text, $4::uuid, $5, now(), $6, coalesce($7, 'infinity'::timestamptz)
        WHERE ($4::uuid IS NULL OR EXISTS (SELECT FROM notifications WHERE id = $4 AND app_id = $2))
            AND (SELECT count(*) FROM holds WHERE lifted_at IS NULL AND ends_at > now()) < $8
        """
    static let find: PostgresStatement = """
        SELECT h.id, a.slug, h.lane, h.notification, h.reason, h.set_at, h.set_by, nullif(h.ends_at, 'infinity'), h.lifted_at, h.lifted_by,
            CASE WHEN h.lifted_at IS NOT NULL THEN 'lifted' WHEN h.ends_at <= now() THEN 'expired' ELSE 'live' END,
            CASE WHEN h.lifted_at IS NOT NULL THEN h.lift_published_at IS NOT NULL ELSE h.published_at IS NOT NULL END
        FROM holds h LEFT JOIN apps a ON a.id = h.app_id
        WHERE h.id = $1 AND ($2::bigint IS NULL OR h.app_id IS NULL OR h.app_id = $2)
        """
    static let findOwn: PostgresStatement = """
        SELECT h.id, a.slug, h.lane, h.notification, h.reason, h.set_at, h.set_by, nullif(h.ends_at, 'infinity'), h.lifted_at, h.lifted_by,
            CASE WHEN h.lifted_at IS NOT NULL THEN 'lifted' WHEN h.ends_at <= now() THEN 'expired' ELSE 'live' END,
            CASE WHEN h.lifted_at IS NOT NULL THEN h.lift_published_at IS NOT NULL ELSE h.published_at IS NOT NULL END
        FROM holds h LEFT JOIN apps a ON a.id = h.app_id
        WHERE h.id = $1 AND ($2::bigint IS NULL OR h.app_id = $2)
        """
    /// Waits for whoever puts something aside under the hold at this moment: what is released afterwards is all of it.
    static let lift: PostgresStatement = """
        UPDATE holds SET lifted_at = now(), lifted_by = $3
        WHERE id = $1 AND ($2::bigint IS NULL OR app_id = $2) AND lifted_at IS NULL AND ends_at > now()
        """
    static let page: PostgresStatement = """
        SELECT * FROM (
            SELECT h.id, a.slug, h.lane, h.notification, h.reason, h.set_at, h.set_by, nullif(h.ends_at, 'infinity'), h.lifted_at,
                h.lifted_by,
                CASE WHEN h.lifted_at IS NOT NULL THEN 'lifted' WHEN h.ends_at <= now() THEN 'expired' ELSE 'live' END AS state,
                CASE WHEN h.lifted_at IS NOT NULL THEN h.lift_published_at IS NOT NULL ELSE h.published_at IS NOT NULL END
            FROM holds h LEFT JOIN apps a ON a.id = h.app_id
            WHERE ($1::bigint IS NULL OR h.app_id IS NULL OR h.app_id = $1) AND ($3::uuid IS NULL OR h.id < $3)
        ) AS held WHERE $2::text IS NULL OR state = $2
        ORDER BY id DESC LIMIT $4
        """
    /// One that was set or lifted a moment ago is being published by whoever did that. Every day again: the control stream forgets after 74 hours,
    /// dispatchers after 73.
    static let toPublish: PostgresStatement = """
        SELECT h.id, a.slug, h.lane, h.notification, h.reason, h.set_at, h.set_by, nullif(h.ends_at, 'infinity'), h.lifted_at, h.lifted_by,
            CASE WHEN h.lifted_at IS NOT NULL THEN 'lifted' ELSE 'live' END,
            CASE WHEN h.lifted_at IS NOT NULL THEN h.lift_published_at IS NOT NULL ELSE h.published_at IS NOT NULL END, h.app_id,
            CASE WHEN h.lifted_at IS NOT NULL THEN h.lift_published_at IS NULL AND h.lifted_at < now() - interval '2 seconds'
                WHEN h.published_at IS NULL THEN h.set_at < now() - interval '2 seconds'
                ELSE h.published_at < now() - interval '1 day' END
        FROM (
            SELECT * FROM holds WHERE lifted_at IS NULL AND ends_at > now()
            UNION ALL
            SELECT * FROM holds WHERE lifted_at IS NOT NULL AND (lift_published_at IS NULL OR released_at IS NULL)
        ) AS h LEFT JOIN apps a ON a.id = h.app_id
        ORDER BY h.id
        """
    static let markPublished: PostgresStatement = """
        WITH locked AS (SELECT id FROM holds WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE)
        UPDATE holds h SET published_at = now() FROM locked WHERE h.id = locked.id
        """
    static let markLiftPublished: PostgresStatement = """
        WITH locked AS (SELECT id FROM holds WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE)
        UPDATE holds h SET lift_published_at = now() FROM locked WHERE h.id = locked.id AND h.lift_published_at IS NULL
        """
}
