-- Lists of notifications: an app's, newest first. The ids are in the order of time.
CREATE INDEX notifications_by_app ON notifications (app_id, id);

-- From an installation to what was sent to it, newest first too. One more column in the index, not one index more.
CREATE INDEX deliveries_of_installation ON deliveries (installation, notification);
DROP INDEX deliveries_by_installation;

-- Every delivery is changed at least once, when its outcome comes. With room in its page no index is touched then: half the work, and
-- nothing left behind in the indexes for retention to sweep up.
ALTER TABLE deliveries SET (fillfactor = 50);

-- What the first answer warned of, so that a repeat says the same: JSON, an array of pointer and code. NULL in records of earlier releases.
ALTER TABLE idempotency_records ADD COLUMN warnings text;
