-- Whom: one kind of target; the columns of the others are NULL.
ALTER TABLE notifications
    DROP CONSTRAINT notifications_check1,
    ADD COLUMN target_users text[],
    ADD COLUMN target_installations uuid[],
    ADD COLUMN target_tokens bytea[],
    -- The canonical text of the expression; and what installations are asked with.
    ADD COLUMN target_tags text,
    ADD COLUMN target_query tsquery,
    ADD COLUMN target_all boolean CHECK (target_all),
    -- Of installations and tokens: the owner epochs as it was accepted, and who held the tokens. Another owner is another addressee.
    ADD COLUMN target_epochs bigint[],
    ADD COLUMN target_holders uuid[],
    ADD CONSTRAINT notifications_one_target CHECK (
        num_nonnulls(target_user, target_users, target_installation, target_installations, target_tokens, target_tags, target_all) = 1);

CREATE INDEX notifications_by_listed_user ON notifications USING gin (target_users) WHERE target_users IS NOT NULL;
-- What privacy searches lists of installations and tokens by. An erased entry becomes NULL and keeps its place: a walk counts places.
CREATE INDEX notifications_by_listed_installation ON notifications USING gin ((coalesce(target_installations, target_holders)))
    WHERE target_installations IS NOT NULL OR target_holders IS NOT NULL;

-- When. A notification is due at not_before; with local_time each delivery is due when it is that time where the device is.
ALTER TABLE notifications
    ADD COLUMN not_before timestamptz,
    ADD COLUMN local_time timestamp,
    -- Of each delivery, from the moment at which it is due; never beyond expires_at.
    ADD COLUMN lifetime_ms bigint CHECK (lifetime_ms > 0),
    ADD COLUMN is_urgent boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT notifications_one_time CHECK (num_nonnulls(not_before, local_time) <= 1);

ALTER TABLE notifications
    ADD COLUMN supersede_key text CHECK (octet_length(supersede_key) BETWEEN 1 AND 64),
    ADD COLUMN cancelled_at timestamptz,
    ADD COLUMN cancel_reason text CHECK (cancel_reason IN ('cancelled', 'superseded')),
    -- On the control stream.
    ADD COLUMN cancel_published_at timestamptz,
    ADD COLUMN receipts text NOT NULL DEFAULT 'all' CHECK (receipts IN ('all', 'failures'));

CREATE INDEX notifications_superseding ON notifications (app_id, supersede_key, coalesce(target_user, target_installation::text))
    WHERE supersede_key IS NOT NULL AND completed_at IS NULL;
CREATE INDEX notifications_cancel_unpublished ON notifications (cancelled_at) WHERE cancelled_at IS NOT NULL AND cancel_published_at IS NULL;

-- What is not resolved as it is accepted is walked: page by page, each page one transaction that moves the checkpoint and makes chunks.
ALTER TABLE notifications
    ADD COLUMN is_walked boolean NOT NULL DEFAULT false,
    -- Of a list: how many of its entries are done. Of an app's installations: the last one that was looked at.
    ADD COLUMN walked_entries integer NOT NULL DEFAULT 0,
    ADD COLUMN walked_to uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    ADD COLUMN chunks integer NOT NULL DEFAULT 0;

-- What the relay looks for: whose lease is over, lane by lane. What is scheduled has its lease until then.
DROP INDEX notifications_unpublished;
CREATE INDEX notifications_unpublished ON notifications (is_walked, lane, lease_until) WHERE published_at IS NULL;

-- The APNs body for installations of one locale.
CREATE TABLE notification_variants (
    notification uuid NOT NULL REFERENCES notifications ON DELETE CASCADE,
    locale text NOT NULL,
    payload bytea NOT NULL CHECK (octet_length(payload) <= 5120),
    PRIMARY KEY (notification, locale)
);

-- The deliveries of one job of a walked notification. A row is made with its deliveries and published when it is due; until it is, its
-- members are resolved anew by whoever publishes it.
CREATE TABLE chunks (
    notification uuid NOT NULL REFERENCES notifications ON DELETE CASCADE,
    number integer NOT NULL,
    lane text NOT NULL,
    -- Of the variant; '' is the default.
    locale text NOT NULL,
    due_at timestamptz NOT NULL,
    -- Token ids of eight bytes each, big-endian. A delivery's id names its place here.
    members bytea NOT NULL CHECK (octet_length(members) BETWEEN 8 AND 800),
    -- One bit for each member that has its final outcome; used where not every delivery has a receipt.
    settled bit(100) NOT NULL DEFAULT B'0'::bit(100),
    lease_until timestamptz NOT NULL,
    published_at timestamptz,
    PRIMARY KEY (notification, number)
);

CREATE INDEX chunks_unpublished ON chunks (lane, lease_until) WHERE published_at IS NULL;

-- Reopened by a replay: its receipt alone says whether it has its outcome, also where its notification keeps counters.
ALTER TABLE deliveries ADD COLUMN is_replayed boolean NOT NULL DEFAULT false;

-- Final outcomes by class and Apple's reason, of notifications without a receipt for every delivery.
CREATE TABLE notification_counts (
    notification uuid NOT NULL REFERENCES notifications ON DELETE CASCADE,
    class text NOT NULL,
    status smallint NOT NULL,
    reason text NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (notification, class, status, reason)
);

-- When a user does not want to be disturbed, by the clock where each device is.
CREATE TABLE quiet_hours (
    app_id bigint NOT NULL REFERENCES apps,
    owner text NOT NULL,
    begins_at time NOT NULL,
    ends_at time NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (app_id, owner),
    CHECK (begins_at <> ends_at)
);

-- The names that this database knows. Clients name zones that it may not know; those count as UTC.
CREATE TABLE time_zones (name text PRIMARY KEY);
INSERT INTO time_zones SELECT name FROM pg_timezone_names;

-- The first moment from `due` on that is outside of the quiet hours.
CREATE FUNCTION after_quiet_hours(due timestamptz, begins_at time, ends_at time, zone text) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (
    SELECT CASE
        WHEN begins_at < ends_at AND local::time >= begins_at AND local::time < ends_at THEN (local::date + ends_at) AT TIME ZONE zone
        WHEN begins_at > ends_at AND local::time >= begins_at THEN (local::date + 1 + ends_at) AT TIME ZONE zone
        WHEN begins_at > ends_at AND local::time < ends_at THEN (local::date + ends_at) AT TIME ZONE zone
        ELSE due END
    FROM (SELECT due AT TIME ZONE zone AS local) AS here
);

-- Whether what is due then has to wait. With a local time it is due at that time where the device is.
CREATE FUNCTION is_quiet(due timestamptz, local_time timestamp, begins_at time, ends_at time, zone text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (
    SELECT after_quiet_hours(moment, begins_at, ends_at, known) > moment
    FROM (SELECT coalesce((SELECT name FROM time_zones WHERE name = zone), 'UTC') AS known) AS here,
        LATERAL (SELECT greatest(now(), due, local_time AT TIME ZONE known) AS moment) AS due_here
);
