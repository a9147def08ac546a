-- What a process has accepted and publishes itself: one row for each commit, which goes when the broker has confirmed all of it. Where the
-- process dies first, a relay finds the row once its lease is over. To be published then changes nothing of a notification that an index
-- knows, so that no index is touched.
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    notifications uuid[] NOT NULL,
    lease_until timestamptz NOT NULL
) WITH (
    -- A lease is renewed in its page. Vacuumed at every opportunity under load, whatever the size; it keeps its pages, so that
    -- the planner goes by what the table grows to and not by how small it is at that moment.
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = false
);
ALTER TABLE outbox ALTER COLUMN notifications SET STORAGE PLAIN;

-- What the relay has to look after: walks, what is held or was left over. From then on any relay may take it. NULL where it is published,
-- or in somebody's outbox.
ALTER TABLE notifications ADD COLUMN free_from timestamptz, ALTER COLUMN lease_until DROP NOT NULL;
UPDATE notifications SET free_from = lease_until, lease_until = NULL WHERE published_at IS NULL;
-- A program of an earlier release, which may still run, does not know the column: the relay looks after what it accepts, in good time.
ALTER TABLE notifications ALTER COLUMN free_from SET DEFAULT '-infinity';

-- Room in every page for the versions that follow: published, then its outcomes.
ALTER TABLE notifications SET (fillfactor = 50);
DROP INDEX notifications_unpublished;
DROP INDEX notifications_held;
CREATE INDEX notifications_free ON notifications (is_walked, lane, free_from) WHERE free_from IS NOT NULL;
CREATE INDEX notifications_held ON notifications (held_by, id) WHERE held_by IS NOT NULL;
