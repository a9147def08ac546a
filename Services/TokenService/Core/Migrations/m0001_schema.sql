-- The token service's tables. docs/tables.md draws them, and names for each the writers, the readers and the lifetime of its rows.

-- MARK: Apps and keys

-- An app is a tenant. Every other table names the app that its row belongs to.
CREATE TABLE apps (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug text NOT NULL UNIQUE CHECK (slug ~ '^[a-z][a-z0-9-]{0,63}$'),
    bundle_id text NOT NULL CHECK (octet_length(bundle_id) BETWEEN 1 AND 155),
    device_policy text NOT NULL CHECK (device_policy IN ('multi', 'single')),
    environments text[] NOT NULL
        CHECK (cardinality(environments) BETWEEN 1 AND 2 AND environments <@ ARRAY['production', 'sandbox']),
    -- After that many days without a registration an installation is stale; NULL: never.
    stale_after_days integer CHECK (stale_after_days BETWEEN 1 AND 3650),
    removes_stale boolean NOT NULL DEFAULT false,
    -- The state changes that go to the exchange of outcomes.
    event_stream text[] NOT NULL DEFAULT '{}'
        CHECK (cardinality(event_stream) <= 3 AND event_stream <@ ARRAY['notifications', 'installations', 'device_receipts']),
    -- Every change of a webhook keeps it right.
    webhooks_want_notifications boolean NOT NULL DEFAULT false,
    -- Whether the event stream or a webhook wants notifications' state changes.
    reports_notifications boolean NOT NULL
        GENERATED ALWAYS AS ('notifications' = ANY (event_stream) OR webhooks_want_notifications) STORED,
    -- At least this far apart are two updates of one Live Activity that count against the budget of the system.
    activity_window_seconds integer NOT NULL DEFAULT 0 CHECK (activity_window_seconds BETWEEN 0 AND 3600),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- The service stores a digest of a key's secret only. It shows the key once, when it makes it.
CREATE TABLE api_keys (
    -- The middle part of the key's text; not secret.
    id text PRIMARY KEY CHECK (id ~ '^[0-9a-f]{16}$'),
    secret_sha256 bytea NOT NULL CHECK (octet_length(secret_sha256) = 32),
    -- NULL: the key is good for every app.
    app_id bigint REFERENCES apps,
    name text NOT NULL,
    scopes text[] NOT NULL
        CHECK (cardinality(scopes) >= 1 AND scopes <@ ARRAY['devices', 'send', 'read', 'admin']),
    requests_per_second integer CHECK (requests_per_second BETWEEN 1 AND 1000000),
    -- The key that this one replaces; both live until the older one's expires_at.
    rotated_from text REFERENCES api_keys,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    -- The keys that made and revoked it. NULL: a setting of the service made it.
    created_by text,
    revoked_by text
);
CREATE INDEX api_keys_by_predecessor ON api_keys (rotated_from) WHERE rotated_from IS NOT NULL;

CREATE VIEW api_keys_with_state AS
SELECT k.id, a.slug AS app, k.name, k.scopes, k.requests_per_second, k.rotated_from, k.created_at, k.expires_at, k.revoked_at,
    k.last_used_at, k.created_by, k.revoked_by,
    CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked' WHEN k.expires_at <= now() THEN 'expired'
        WHEN k.expires_at <= now() + interval '30 days' THEN 'expiring' ELSE 'live' END AS state
FROM api_keys k LEFT JOIN apps a ON a.id = k.app_id;

-- The audit trail: who used an administrator's rights, and who read tokens or a person's data in full. Rows are only appended, each in the
-- transaction of its change. It lives as long as the history of installations.
CREATE TABLE audit (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL DEFAULT now(),
    action text NOT NULL,
    -- NULL: the service by itself.
    key_id text,
    -- The slug. NULL: no single app.
    app text,
    -- An id or a digest; never a user's name.
    object text,
    count bigint,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE INDEX audit_by_key ON audit (key_id, id);
CREATE INDEX audit_by_action ON audit (action, id);
CREATE INDEX audit_by_app ON audit (app, id) WHERE app IS NOT NULL;

CREATE VIEW audit_entries AS SELECT a.*, k.name AS key_name FROM audit a LEFT JOIN api_keys k ON k.id = a.key_id;

-- When each dispatcher last reported its credentials.
CREATE TABLE dispatchers (
    source text PRIMARY KEY,
    reported_at timestamptz NOT NULL DEFAULT now()
) WITH (
    -- A report, once a minute, changes no indexed column.
    fillfactor = 50
);

-- The credentials that each dispatcher last reported, with the apps of each, as in its message. Apart from the time of the report: the list may
-- be long, and seldom changes.
CREATE TABLE credential_reports (
    source text PRIMARY KEY REFERENCES dispatchers ON DELETE CASCADE,
    credentials jsonb NOT NULL
);

-- MARK: Registry

-- One install of an app on one device. It has one owner or none: a column, so it cannot have two.
-- A deregistered installation stays as an empty row, because its epoch must never start again below a fence.
CREATE TABLE installations (
    app_id bigint NOT NULL REFERENCES apps,
    id uuid NOT NULL,
    -- Fan-out goes through installations in this order, which is about the order in which their rows lie. Ids are random: by them, each
    -- device of a million would be several cache misses.
    ordinal bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    owner text CHECK (octet_length(owner) BETWEEN 1 AND 256),
    owner_epoch bigint NOT NULL DEFAULT 1 CHECK (owner_epoch >= 1),
    signed_out_reason text CHECK (signed_out_reason IN ('logout', 'superseded', 'deregistered', 'stale', 'erased')),
    throttled_until timestamptz,
    locale text,
    time_zone text,
    app_version text,
    os_version text,
    device_model text,
    -- Whether the person lets the app show notifications, as the app reports it.
    permission text CHECK (permission IN ('not_determined', 'provisional', 'denied', 'authorized', 'ephemeral')),
    -- The backend's tags, which no registration by an app changes, and the app's own, which begin with `app:`.
    tags text[] NOT NULL DEFAULT '{}',
    -- Only a backend's lists have stated it; no device has registered it.
    is_imported boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL,
    registered_at timestamptz NOT NULL,
    deregistered_at timestamptz,
    stale_since timestamptz,
    -- Each line of history that a registration makes moves this on from now by 3.6 s. More than an hour ahead it may make no more.
    lines_count_until timestamptz,
    CHECK (deregistered_at IS NULL OR owner IS NULL)
) WITH (
    -- A refresh changes no indexed column. With room in the page it touches no index.
    fillfactor = 80
);
CREATE UNIQUE INDEX installations_in_order ON installations (app_id, ordinal, id);
CREATE INDEX installations_by_owner ON installations (app_id, owner, id) WHERE owner IS NOT NULL;
CREATE INDEX installations_by_tag ON installations USING gin (tags) WHERE tags <> '{}';
-- Last: if two indexes cost the same, as those of an empty table do, PostgreSQL takes the newer one.
ALTER TABLE installations ADD PRIMARY KEY (app_id, id);

-- A token has one row for ever, and the row names one installation: a token cannot belong to two.
CREATE TABLE tokens (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id bigint NOT NULL,
    installation uuid NOT NULL,
    ordinal bigint NOT NULL,
    environment text NOT NULL CHECK (environment IN ('production', 'sandbox')),
    -- `activity_start:` and an attributes type, or `activity:` and the app's own id of a Live Activity.
    purpose text NOT NULL CHECK (octet_length(purpose) <= 160 AND purpose ~
        '^(alert|voip|pushtotalk|location|complication|fileprovider|controls|widgets|mdm|activity(_start)?:.+)$'),
    token bytea NOT NULL CHECK (octet_length(token) BETWEEN 1 AND 256),
    -- A start token is doubtful when no activity was reported after several starts that APNs accepted. No start goes to it until its device
    -- registers it again or reports an activity, or a day has passed. It is not over.
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'doubtful', 'retired')),
    registered_at timestamptz NOT NULL,
    -- APNs has accepted the token in this environment. From then on the environment is a fact; before, it is the client's claim.
    proven_at timestamptz,
    retired_at timestamptz,
    retired_reason text CHECK (retired_reason IN ('replaced', 'removed', 'deregistered', 'gone', 'rejected', 'stale')),
    -- When the brake on rejections put it into quarantine: its retirement may be a fault of ours.
    quarantined_at timestamptz,
    -- When APNs last said that the token is over, and how often it has. A registration that names the token again keeps both.
    ended_by_apns_at timestamptz,
    ended_by_apns_times smallint NOT NULL DEFAULT 0,
    -- Of a start token: when its device last reported an activity of the type, or when the last start was sent that counts as silent. NULL: the
    -- device has reported none, and no start counts.
    silent_since timestamptz,
    -- Starts that APNs accepted since that report, each sent an hour or more after the one before.
    silent_starts smallint NOT NULL DEFAULT 0,
    CONSTRAINT tokens_of_installations FOREIGN KEY (app_id, ordinal, installation) REFERENCES installations (app_id, ordinal, id),
    -- In this order the index also leads from a token's value to its rows. The app is not first in it, nor in tokens_by_installation: on an empty
    -- table PostgreSQL takes all tokens of an app to be one row, and would keep a plan that reads them all.
    CONSTRAINT tokens_once UNIQUE (token, app_id, purpose, environment),
    CHECK ((state = 'retired') = (retired_at IS NOT NULL) AND (state = 'retired') = (retired_reason IS NOT NULL)),
    CONSTRAINT tokens_in_quarantine CHECK (quarantined_at IS NULL OR state = 'retired'),
    CONSTRAINT tokens_in_doubt CHECK (state <> 'doubtful' OR purpose LIKE 'activity_start:%')
) WITH (fillfactor = 80);
-- One live token per purpose and environment of an installation. Fan-out reads it in its order.
CREATE UNIQUE INDEX tokens_one_active ON tokens (app_id, ordinal, purpose, environment) WHERE state = 'active';
CREATE INDEX tokens_by_installation ON tokens (installation, app_id);
-- Every batch with a rejection reads what the brake may still put into quarantine, not past all that is there.
CREATE INDEX tokens_rejected ON tokens (app_id, retired_at) WHERE retired_reason = 'rejected' AND quarantined_at IS NULL;
-- These two indexes state the same condition in two forms. A statement goes by the one whose form it repeats: the list of one app by the
-- first, the sweep of all apps by the second. A statement that knows installations repeats neither.
CREATE INDEX tokens_quarantined ON tokens (app_id, id) WHERE (quarantined_at IS NOT NULL) IS TRUE;
CREATE INDEX tokens_by_quarantine ON tokens (quarantined_at, id) WHERE (quarantined_at IS NULL) IS FALSE;
-- From a Live Activity's name to the installations that have an update token of it, whoever owns them.
CREATE INDEX tokens_by_activity ON tokens (app_id, purpose, installation) WHERE state = 'active' AND purpose LIKE 'activity:%';
-- Update tokens of Live Activities: each is over twelve hours later.
-- IS TRUE: only retention says so, and no search for one activity's tokens goes through all of them.
CREATE INDEX tokens_of_activities ON tokens (registered_at) WHERE (state = 'active' AND purpose LIKE 'activity:%') IS TRUE;
CREATE INDEX tokens_retired ON tokens (retired_at, id) WHERE retired_at IS NOT NULL;
-- By the id, which no update changes.
CREATE INDEX tokens_doubtful ON tokens (id) WHERE (state = 'doubtful') IS TRUE;
-- Whether an app uses its sandbox.
CREATE INDEX tokens_in_sandbox ON tokens (app_id) WHERE state = 'active' AND environment = 'sandbox';
-- Whether an app has doubtful tokens in an environment: they are active again a day later.
CREATE INDEX tokens_doubtful_by_app ON tokens (app_id, environment) WHERE state = 'doubtful';

-- The fences that the control stream must have: written with the change that needs them, published before the answer or by the relay.
CREATE TABLE fences (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id bigint NOT NULL,
    installation uuid NOT NULL,
    epochs_below bigint NOT NULL,
    created_at timestamptz NOT NULL,
    -- From then on any process may publish it: when no caller waits any more, or when the lease of the process that publishes it ends. Never
    -- before the begin of the transaction that sets it: see `low_water`.
    free_from timestamptz NOT NULL,
    published_at timestamptz,
    FOREIGN KEY (app_id, installation) REFERENCES installations
);
CREATE INDEX fences_by_installation ON fences (app_id, installation, id);
CREATE INDEX fences_by_publishing ON fences (published_at) WHERE published_at IS NOT NULL;
-- Every registration and logout reads its installations' open fences.
CREATE INDEX fences_open ON fences (app_id, installation) WHERE published_at IS NULL;
-- The relay reads the oldest ones. IS TRUE: a statement that knows the installation is never planned with this one.
CREATE INDEX fences_left_over ON fences (free_from) WHERE (published_at IS NULL) IS TRUE;

CREATE VIEW open_fences AS
SELECT f.id, f.app_id, a.slug AS app, f.installation, f.epochs_below, f.created_at
FROM fences f JOIN apps a ON a.id = f.app_id WHERE f.published_at IS NULL;

-- In the order of epochs_below, for which PostgreSQL has to sort the rows of fences_open: for the order of ids it may read fences that are
-- not open.
CREATE FUNCTION open_fences_of(of_app bigint, of_installation uuid) RETURNS SETOF open_fences
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT * FROM open_fences WHERE app_id = of_app AND installation = of_installation ORDER BY epochs_below;
END;

-- Installations as the API shows them: one row for each, without a token, and one for each of its tokens, with nothing else. So the tags
-- of an installation, kilobytes in the worst case, are not repeated for each of its tokens. An installation in its first epoch was never
-- fenced, which saves the look-up.
CREATE VIEW installation_records AS
SELECT i.app_id, i.id, i.owner, i.owner_epoch, i.throttled_until, i.registered_at, i.created_at, i.locale, i.time_zone, i.app_version,
    i.os_version, i.device_model, i.permission, i.tags,
    CASE WHEN i.owner_epoch = 1 THEN 'none' WHEN (
        -- Not EXISTS, for which PostgreSQL may read all open fences once.
        SELECT true FROM fences f WHERE f.app_id = i.app_id AND f.installation = i.id AND f.published_at IS NULL LIMIT 1
    ) THEN 'pending' ELSE 'effective' END AS fence,
    NULL::bigint AS token_id, NULL::bytea AS token, NULL::text AS environment, NULL::text AS purpose, NULL::text AS state,
    NULL::timestamptz AS token_registered_at, NULL::timestamptz AS retired_at, NULL::text AS retired_reason,
    NULL::timestamptz AS ended_by_apns_at
FROM installations i WHERE i.deregistered_at IS NULL
UNION ALL
SELECT i.app_id, i.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    t.id, t.token, t.environment, t.purpose, t.state, t.registered_at, t.retired_at, t.retired_reason, t.ended_by_apns_at
FROM installations i JOIN tokens t ON t.app_id = i.app_id AND t.installation = i.id
WHERE i.deregistered_at IS NULL;

-- The most bytes of JSON that an installation takes in an answer, with its tokens in full.
CREATE VIEW installation_sizes AS
SELECT i.app_id, i.id, 450 + octet_length(array_to_json(i.tags)::text) + t.bytes
    + octet_length(to_json(concat(i.owner, i.locale, i.time_zone, i.app_version, i.os_version, i.device_model))::text) AS bytes
FROM installations i CROSS JOIN LATERAL (
    SELECT coalesce(sum(400 + 2 * octet_length(t.token) + octet_length(to_json(t.purpose)::text)), 0) AS bytes FROM tokens t
    WHERE t.app_id = i.app_id AND t.installation = i.id
) AS t;

CREATE FUNCTION has_active_token(i installations) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN EXISTS (SELECT FROM tokens t WHERE t.app_id = i.app_id AND t.ordinal = i.ordinal AND t.state = 'active');

-- The words that a tag expression is judged by: the tags of both owners, and the permission as a word that no tag may be.
CREATE FUNCTION audience_words(tags text[], permission text) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN array_to_tsvector(array_append(tags, 'permission:' || coalesce(permission, 'unknown')));

-- About how many installations of all apps have one of these tags, by PostgreSQL's statistics: the index on tags would read every one of
-- them before a limit ends it. The planner itself takes a tag that the statistics do not list to be in 0.5 % of the rows. But they list the
-- thousand most common ones: of a shorter list, any other tag was seen in at most two of 30,000 rows for each tag that a row has on average.
CREATE FUNCTION tagged_estimate(wanted text[]) RETURNS bigint
LANGUAGE sql STABLE
RETURN (
    SELECT ceil(greatest(c.reltuples, 0) * sum(CASE WHEN s.attname IS NULL THEN 0.005 ELSE coalesce(
        s.frequencies[array_position(s.tags, w.tag)],
        -- Behind the tags' own frequencies stands the lowest of them, and the average behind the counts of a row's tags.
        least(0.005, s.frequencies[cardinality(s.tags) + 1] / 2,
            CASE WHEN coalesce(cardinality(s.tags), 0) < 1000 THEN greatest(1, s.counts[cardinality(s.counts)]) / 15000 END)) END))
    FROM pg_class c CROSS JOIN unnest(wanted) AS w (tag)
    LEFT JOIN LATERAL (
        SELECT attname, most_common_elems::text::text[] AS tags, most_common_elem_freqs AS frequencies, elem_count_histogram AS counts
        FROM pg_stats WHERE schemaname = c.relnamespace::regnamespace::text AND tablename = c.relname AND attname = 'tags'
    ) AS s ON true
    WHERE c.oid = 'installations'::regclass GROUP BY c.reltuples
);

-- Whether a list with these filters shows the installation. NULL: without the filter.
CREATE FUNCTION is_listed(
    i installations, state text, permission text, tag text, seen_after timestamptz, seen_before timestamptz
) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN i.deregistered_at IS NULL
    AND CASE state
        WHEN 'signed_in' THEN i.owner IS NOT NULL
        WHEN 'signed_out' THEN i.owner IS NULL
        WHEN 'throttled' THEN i.throttled_until > now()
        WHEN 'stale' THEN i.stale_since IS NOT NULL
        WHEN 'unreachable' THEN NOT has_active_token(i)
        ELSE true END
    AND (permission IS NULL OR coalesce(i.permission, 'unknown') = permission)
    AND (tag IS NULL OR i.tags @> ARRAY[tag])
    AND (seen_after IS NULL OR i.registered_at >= seen_after) AND (seen_before IS NULL OR i.registered_at < seen_before);

-- A token moved between two installations of the same owner. The first one got no fence then, because its queued jobs were still right.
-- They become wrong when the second one's owner changes, so that fence must cover the first one too.
CREATE TABLE token_moves (
    app_id bigint NOT NULL,
    predecessor uuid NOT NULL,
    successor uuid NOT NULL,
    moved_at timestamptz NOT NULL,
    -- The app comes last: with the app first, the planner read all moves of an app that has most of them.
    PRIMARY KEY (successor, predecessor, app_id),
    FOREIGN KEY (app_id, predecessor) REFERENCES installations,
    FOREIGN KEY (app_id, successor) REFERENCES installations
);
CREATE FUNCTION predecessors_of(of_app bigint, of_installation uuid) RETURNS SETOF token_moves
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT * FROM token_moves WHERE app_id = of_app AND successor = of_installation ORDER BY predecessor;
END;
CREATE INDEX token_moves_by_predecessor ON token_moves (predecessor);
CREATE INDEX token_moves_by_time ON token_moves (moved_at);

-- When a user was last signed out everywhere, a user at an installation at which that user was not signed in, and anyone at one at which
-- no user was: device credentials of the name that were made until then are over. The name is a SHA-256: an erasure leaves no other one.
CREATE TABLE sign_outs (
    app_id bigint NOT NULL REFERENCES apps,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    signed_out_at timestamptz NOT NULL,
    PRIMARY KEY (app_id, digest)
);
CREATE INDEX sign_outs_by_time ON sign_outs (signed_out_at);

-- The events of each installation, and their causes. Rows are only appended. It has no foreign key: every registration inserts here, and
-- nothing depends on a history without its installation.
CREATE TABLE installation_history (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    app_id bigint NOT NULL,
    installation uuid NOT NULL,
    at timestamptz NOT NULL,
    event text NOT NULL CHECK (event IN ('registered', 'signed_in', 'signed_out', 'deregistered', 'token_added', 'token_moved_here',
        'token_moved_away', 'token_replaced', 'token_removed', 'token_retired', 'token_doubtful', 'token_quarantined', 'token_restored',
        'environment_corrected', 'throttled', 'stale')),
    owner_epoch bigint,
    owner text,
    token_id bigint,
    token_hint text,
    environment text,
    purpose text,
    other_installation uuid,
    -- APNs' answer, and since when the token is gone according to it.
    status smallint,
    reason text,
    apns_timestamp timestamptz,
    delivery uuid,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE INDEX installation_history_by_installation ON installation_history (app_id, installation, id);
CREATE INDEX installation_history_by_owner ON installation_history (app_id, owner, id) WHERE owner IS NOT NULL;
-- From a token to the installations that it left.
CREATE INDEX installation_history_moves ON installation_history (token_id) WHERE event = 'token_moved_away';

-- Whether a token left an installation since then.
CREATE FUNCTION moved_since(token bigint, moment timestamptz) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT count(*) > 0 FROM installation_history WHERE token_id = token AND event = 'token_moved_away' AND at >= moment;
END;

-- The times of users at installations that have ended. Such a time begins where the history last names another user, or ends an earlier time
-- of the same one: the times of an installation have no line in common, and all together read each line once.
CREATE VIEW ended_stays AS
SELECT h.app_id, h.owner, h.installation, coalesce(before.owner_epoch + 1, 0) AS epochs_from, h.owner_epoch + 1 AS epochs_below,
    coalesce(before.id + 1, 0) AS history_from, h.id AS history_to, coalesce(before.at, 'epoch') AS began_at, h.at AS ended_at
FROM installation_history h LEFT JOIN LATERAL (
    SELECT o.id, o.owner_epoch, o.at FROM installation_history o
    WHERE o.app_id = h.app_id AND o.installation = h.installation AND o.id < h.id AND o.owner IS NOT NULL
        AND (o.owner <> h.owner OR o.event IN ('signed_out', 'deregistered') AND o.owner_epoch IS NOT NULL)
    ORDER BY o.id DESC LIMIT 1
) AS before ON true
WHERE h.owner IS NOT NULL AND h.event IN ('signed_out', 'deregistered') AND h.owner_epoch IS NOT NULL;

-- The times of an erased user at installations whose history and receipts are still to be removed. The fence's transaction writes it, so
-- that a call that was cut short can be repeated although the installation no longer names the user. Empty when no erasure is under way.
CREATE TABLE erasures (
    app_id bigint NOT NULL,
    owner text NOT NULL,
    installation uuid NOT NULL,
    -- Rows outside of these epochs and this part of the history belong to other users.
    epochs_from bigint NOT NULL,
    epochs_below bigint NOT NULL,
    history_from bigint NOT NULL,
    history_to bigint NOT NULL,
    began_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    PRIMARY KEY (app_id, owner, installation, epochs_below)
);

-- The time in which a user does not want pushes, by the clock of each device.
CREATE TABLE quiet_hours (
    app_id bigint NOT NULL REFERENCES apps,
    owner text NOT NULL,
    begins_at time NOT NULL,
    ends_at time NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (app_id, owner),
    CHECK (begins_at <> ends_at)
);

-- The time zones that this database knows. A client's zone that it does not know counts as UTC.
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

-- Whether a delivery that is due then has to wait. With a local time it is due at that time in the device's zone.
CREATE FUNCTION is_quiet(due timestamptz, local_time timestamp, begins_at time, ends_at time, zone text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (
    SELECT after_quiet_hours(moment, begins_at, ends_at, known) > moment
    FROM (SELECT coalesce((SELECT name FROM time_zones WHERE name = zone), 'UTC') AS known) AS here,
        LATERAL (SELECT greatest(now(), due, local_time AT TIME ZONE known) AS moment) AS due_here
);

-- The result of a notification on one installation, how many live tokens it has for it, and whether its time depends on a time zone that is
-- not known. The reason why a token is over is read only if no token is live, and for that device alone: an app may have half of its tokens
-- in quarantine. Live tokens are found by their ordinal: by installation there are two indexes, and before tables are analyzed the planner
-- takes either.
CREATE FUNCTION reach_of(i installations, for_purpose text, is_urgent boolean, due timestamptz, local_time timestamp)
RETURNS TABLE (reason text, tokens bigint, counts_as_utc boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE
        WHEN live.count = 0 THEN coalesce((
            SELECT CASE WHEN bool_or(t.state = 'doubtful') THEN 'token_doubtful' WHEN bool_or(t.quarantined_at IS NOT NULL) THEN 'quarantined'
                WHEN count(*) > 0 THEN 'token_retired' END FROM tokens t
            WHERE t.app_id = i.app_id AND t.installation = i.id AND t.purpose = for_purpose), 'no_token')
        WHEN i.throttled_until > now() THEN 'throttled'
        WHEN NOT is_urgent AND EXISTS (
            SELECT FROM quiet_hours q WHERE q.app_id = i.app_id AND q.owner = i.owner
                AND is_quiet(due, local_time, q.begins_at, q.ends_at, i.time_zone)) THEN 'quiet_hours'
        WHEN i.owner IS NULL THEN 'signed_out'
        ELSE 'ready' END, live.count,
        (local_time IS NOT NULL OR NOT is_urgent AND EXISTS (SELECT FROM quiet_hours q WHERE q.app_id = i.app_id AND q.owner = i.owner))
            AND NOT EXISTS (SELECT FROM time_zones z WHERE z.name = i.time_zone)
    FROM (
        SELECT count(*) FROM tokens t
        WHERE t.app_id = i.app_id AND t.ordinal = i.ordinal AND t.purpose = for_purpose AND t.state = 'active'
    ) AS live;
END;

-- When a delivery is due on one installation: at its local time by the installation's zone, and not within its user's quiet hours, which
-- are NULL if there are none. NULL: at once. A late fan-out returns a moment in the past, so that the lifetime counts from the right
-- moment; that of a delivery in quiet hours counts from their end. A late fan-out within quiet hours waits for their end, but not with
-- deliveries that would be over by then.
CREATE FUNCTION due_at(local_time timestamp, lifetime_ms bigint, accepted_at timestamptz, begins_at time, ends_at time, zone text)
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (
    SELECT CASE
        WHEN ends_at IS NULL THEN local
        WHEN local IS NULL THEN nullif(next, now())
        WHEN next > now() AND (usual + lifetime_ms * interval '1 millisecond' > next) IS NOT FALSE THEN next
        ELSE usual END
    FROM (SELECT local_time AT TIME ZONE zone AS local) AS here,
        LATERAL (
            SELECT after_quiet_hours(greatest(now(), local), begins_at, ends_at, zone) AS next,
                after_quiet_hours(greatest(accepted_at, local), begins_at, ends_at, zone) AS usual
        ) AS moments
);

-- MARK: Channels

-- The broadcast channels of one app in one environment. Every change of a channel locks its scope's row first, so that changes come one after
-- another.
CREATE TABLE channel_scopes (
    app_id bigint NOT NULL REFERENCES apps,
    environment text NOT NULL CHECK (environment IN ('production', 'sandbox')),
    -- When Apple's channels were last listed; NULL: never since the scope had no channel.
    listed_at timestamptz,
    -- From when on they are listed again; NULL: the scope has no channel.
    list_from timestamptz,
    -- The command that a dispatcher works on: at most one in a scope. After `command_ends_at` its answer is lost.
    command uuid,
    operation text CHECK (operation IN ('create', 'read', 'delete', 'list')),
    command_channel bigint,
    command_ends_at timestamptz,
    -- Ids that the last list found and no row had, while the answer to a create was missing.
    candidates text[],
    -- From when on the worker has something to do here; NULL: nothing.
    due_at timestamptz,
    PRIMARY KEY (app_id, environment),
    CHECK (num_nulls(command, operation, command_ends_at) IN (0, 3))
);
CREATE INDEX channel_scopes_due ON channel_scopes (due_at) WHERE due_at IS NOT NULL;

-- A broadcast channel that exists at Apple, or should. BroadcastChannel+Events.swift decides its states.
CREATE TABLE channels (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id bigint NOT NULL,
    environment text NOT NULL,
    -- The backend's own name. NULL: a foreign channel, or one without a use that is being deleted.
    name text CHECK (octet_length(name) BETWEEN 1 AND 128),
    -- Apple's id, in base64. NULL until Apple has answered.
    apple_id text CHECK (octet_length(apple_id) BETWEEN 1 AND 512),
    -- NULL until Apple has said it.
    storage text CHECK (storage IN ('none', 'latest')),
    state text NOT NULL CHECK (state IN ('creating', 'open', 'deleting', 'failed', 'foreign', 'lost')),
    -- The command that may have made a channel at Apple, as long as its answer is missing.
    creation uuid,
    -- Why Apple refused it, or why it waits.
    reason text,
    -- From when on the next command about it may go; NULL: none is to go.
    due_at timestamptz,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    FOREIGN KEY (app_id, environment) REFERENCES channel_scopes,
    CHECK (name IS NOT NULL OR state IN ('foreign', 'deleting')),
    CHECK (state NOT IN ('open', 'lost') OR num_nulls(apple_id, storage) = 0),
    CHECK (state IN ('creating', 'deleting') OR num_nonnulls(creation, due_at) = 0)
);
CREATE UNIQUE INDEX channels_by_name ON channels (app_id, name) WHERE name IS NOT NULL;
CREATE UNIQUE INDEX channels_by_apple_id ON channels (app_id, environment, apple_id) WHERE apple_id IS NOT NULL;
-- At most one create of a scope is under way, or without its answer.
CREATE UNIQUE INDEX channels_one_creation ON channels (app_id, environment) WHERE creation IS NOT NULL;
CREATE INDEX channels_due ON channels (app_id, environment, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX channels_in_order ON channels (app_id, id);
CREATE INDEX channels_by_state ON channels (state, environment, app_id, changed_at);

-- MARK: Live Activities

-- Whose a Live Activity is, as a part of its key: a user's, or of an installation that has no user. A channel is nobody's.
CREATE FUNCTION activity_owner(owner text, installation uuid) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce('user:' || owner, 'installation:' || installation, 'channel');

-- What updates go to, one after another: a channel by its name, whose row comes with the channel and stays for twelve hours after it, until
-- all activities that its last end has ended are off the lock screen; or one Live Activity, by its
-- owner and the id that the app and its backend call it. Ids are guessable: two owners may have an activity of the same id, and neither
-- reaches the other's. Its update tokens are the tokens of purpose `activity:` and this id at the owner's installations.
CREATE TABLE update_targets (
    app_id bigint NOT NULL REFERENCES apps,
    owner text CHECK (octet_length(owner) BETWEEN 1 AND 256),
    installation uuid,
    owned_by text NOT NULL GENERATED ALWAYS AS (activity_owner(owner, installation)) STORED,
    id text NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 128),
    attributes_type text CHECK (octet_length(attributes_type) BETWEEN 1 AND 128),
    -- The ordinal of the broadcast channel that it follows: its start named it, or the app reported it. A channel that was deleted has no row
    -- in the end: a foreign key would write to all activities that followed it.
    channel bigint,
    -- Of a channel: when it was deleted. A channel of its name that is made in time has its row.
    removed_at timestamptz,
    -- The order in which a broadcast reaches those of its channel that have update tokens.
    ordinal bigint GENERATED ALWAYS AS IDENTITY,
    -- A start to the user made it: the user's devices that have not reported a token of it may show it.
    is_started_for_user boolean NOT NULL DEFAULT false,
    -- NULL: it is a channel.
    started_at timestamptz,
    -- When its start comes to the last time zone, if it is due at a local time and no device has reported it.
    starts_until timestamptz,
    -- When a device first reported an update token. Until then the activity is starting, and its updates wait.
    reported_at timestamptz,
    -- The person lets the app update its activities frequently, so updates need no window.
    has_frequent_updates boolean NOT NULL DEFAULT false,
    -- A sender ended it, or its user left. Of a channel: when the last end was sent; activities that had started before are over.
    ended_at timestamptz,
    -- Of a channel: the end that was sent then, until APNs accepts a delivery of it or may have, and what ended_at was before. If all
    -- deliveries end otherwise, ended_at is that again.
    unconfirmed_end uuid,
    ended_before timestamptz,
    -- Of the newest state: when it becomes stale, and when it, or what the channel ends, leaves the lock screen.
    stale_at timestamptz,
    dismissed_at timestamptz,
    -- The newest state that was accepted, and its `timestamp` in UNIX seconds. An older one is never sent after it.
    newest uuid,
    newest_timestamp bigint,
    is_waiting boolean NOT NULL DEFAULT false,
    -- The notification whose pushes are under way; the newest one waits for its outcomes.
    sending uuid,
    -- An attempt of that notification failed: it is sent again later, and the newest one need not wait for it.
    is_retrying boolean NOT NULL DEFAULT false,
    -- The window of the last update ends then.
    free_at timestamptz,
    -- The newest state is an end; the one under way is.
    is_end boolean NOT NULL DEFAULT false,
    is_sending_end boolean NOT NULL DEFAULT false,
    PRIMARY KEY (app_id, owned_by, id),
    CHECK (num_nonnulls(owner, installation) = num_nonnulls(started_at))
) WITH (
    -- An update changes no indexed column.
    fillfactor = 70
);
CREATE INDEX activities_by_start ON update_targets (started_at);
-- The channels that activities follow.
CREATE UNIQUE INDEX followed_channels ON update_targets (app_id, ordinal) WHERE started_at IS NULL;
CREATE INDEX removed_channels ON update_targets (removed_at) WHERE removed_at IS NOT NULL;
-- Who follows a channel now, up to a number: not past those that started long ago.
CREATE INDEX activities_following ON update_targets (channel, started_at) WHERE ended_at IS NULL AND channel IS NOT NULL;
CREATE INDEX activities_by_channel ON update_targets (channel, ordinal) INCLUDE (started_at) WHERE ended_at IS NULL;
-- A user's activities are kept for a week; a sign-out asks for those of two days.
CREATE INDEX activities_of_users ON update_targets (app_id, owned_by, started_at) WHERE is_started_for_user AND ended_at IS NULL;

-- The Live Activities among them, to read and to write.
CREATE VIEW activities AS SELECT * FROM update_targets WHERE started_at IS NOT NULL;

-- Until when an activity lives if nothing ends it. Eight hours after its start the system ends a Live Activity (Apple, "Displaying live data
-- with Live Activities"). A start may be held back: one that no device has reported has a day. With a channel no device has to report it.
-- A start at a local time goes to the last time zone up to 26 hours after the first.
CREATE FUNCTION lives_until(a activities) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(a.starts_until, a.started_at)
    + CASE WHEN a.reported_at IS NULL AND a.channel IS NULL THEN interval '24 hours' ELSE interval '8 hours' END;

-- Four hours after its end an activity leaves the lock screen (the same page of Apple's).
CREATE VIEW activity_records AS
SELECT a.*, q.id AS channel_name, e.ends_at, e.leaves_at,
    CASE WHEN coalesce(e.leaves_at, e.ends_at + interval '4 hours') <= now() THEN 'dismissed'
        WHEN e.ends_at <= now() THEN 'ended'
        WHEN a.reported_at IS NULL AND q.id IS NULL THEN 'starting'
        WHEN greatest(a.stale_at, q.stale_at) <= now() THEN 'stale'
        ELSE 'active' END AS state
FROM activities a
-- LIMIT: by its key for each activity with a channel, and not by reading the whole table once.
LEFT JOIN LATERAL (
    SELECT * FROM update_targets WHERE app_id = a.app_id AND ordinal = a.channel AND started_at IS NULL LIMIT 1
) AS q ON true
-- A broadcast has ended it, if it had started before.
CROSS JOIN LATERAL (SELECT q.ended_at >= a.started_at IS TRUE AS by_channel) AS o
CROSS JOIN LATERAL (
    SELECT least(a.ended_at, CASE WHEN o.by_channel THEN q.ended_at END, lives_until(a)) AS ends_at,
        coalesce(a.dismissed_at, CASE WHEN o.by_channel THEN q.dismissed_at END) AS leaves_at
) AS e;

-- Whether a broadcast goes to an activity of its channel that started then: an end to those that it ends, an update to those that the last
-- end has not ended. Fan-out reads a page before the one before it is committed, so an end may not be the channel's `sending` yet.
CREATE FUNCTION reaches(c update_targets, broadcast uuid, started_at timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN c.sending = broadcast AND c.is_sending_end THEN started_at <= c.ended_at
    WHEN c.newest = broadcast AND c.is_end THEN true
    ELSE started_at > c.ended_at IS NOT FALSE END;

-- Whether a device of its owner may show the activity: it has an update token, or it may have got the start and not reported yet. The
-- installation `told` has just said that it does not show it. That word may be late, and about an earlier activity of the same id: it counts
-- neither before the start is due, nor if the device has reported an earlier one and not this one. A doubtful start token may have
-- got it if a start that counts was sent in the eight hours before started_at, or since: the first report moves that. Of a user with more than
-- 100 installations none is looked at, and the answer is yes: such an activity is over when its sender or the system ends it.
CREATE FUNCTION may_be_shown(a activities, told uuid DEFAULT NULL) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN EXISTS (SELECT FROM installations i WHERE i.app_id = a.app_id AND i.owner = a.owner OFFSET 100) OR EXISTS (
    SELECT FROM installations i
    CROSS JOIN LATERAL (SELECT * FROM tokens WHERE app_id = i.app_id AND installation = i.id ORDER BY id) AS t
    WHERE i.app_id = a.app_id AND (i.owner = a.owner OR i.id = a.installation AND i.owner IS NULL)
        AND (t.state = 'active' OR t.state = 'doubtful' AND t.silent_since >= a.started_at - interval '8 hours') IS TRUE
        AND (t.purpose = 'activity:' || a.id
            OR a.is_started_for_user AND t.purpose = 'activity_start:' || a.attributes_type AND NOT EXISTS (
                SELECT FROM tokens u
                WHERE u.app_id = i.app_id AND u.installation = i.id AND u.purpose = 'activity:' || a.id AND u.registered_at >= a.started_at)
            AND (i.id IS DISTINCT FROM told OR a.started_at > now() OR EXISTS (
                SELECT FROM tokens u
                WHERE u.app_id = i.app_id AND u.installation = i.id AND u.purpose = 'activity:' || a.id AND u.registered_at < a.started_at)))
);

-- The activities that devices may show of these users (nil: of the installation without a user), in the order in which they are locked: those
-- that have an active update token there; only that of the purpose if one is given. If none is given, also those that were started for the user
-- and that the device may have got and not reported. The app, the owner and the id of each; there may be none.
CREATE FUNCTION activities_shown_on(apps bigint[], installations uuid[], users text[], purposes text[])
RETURNS TABLE (app_id bigint, owned_by text, id text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT e.app_id, activity_owner(e.owner, e.installation), substr(t.purpose, 10)
    FROM unnest(apps, installations, users, purposes) AS e (app_id, installation, owner, purpose)
    CROSS JOIN LATERAL (SELECT * FROM tokens WHERE app_id = e.app_id AND installation = e.installation ORDER BY id) AS t
    -- IS TRUE: by the installation, not by the index on the update tokens of all.
    WHERE (t.state = 'active' AND t.purpose LIKE 'activity:%' AND t.purpose = coalesce(e.purpose, t.purpose)) IS TRUE
    UNION
    SELECT a.app_id, a.owned_by, a.id
    FROM unnest(apps, installations, users, purposes) AS e (app_id, installation, owner, purpose)
    CROSS JOIN LATERAL (
        SELECT o.*, lives_until(o) AS ends_at FROM activities o
        WHERE app_id = e.app_id AND owned_by = activity_owner(e.owner, e.installation) AND is_started_for_user AND ended_at IS NULL
            -- A start that is not due yet may reach a device that the user gets until then.
            AND started_at BETWEEN now() - interval '50 hours' AND now() + interval '1 minute'
        -- Of a user with more starts than that in two days, the newest.
        ORDER BY started_at DESC LIMIT 100
    ) AS a
    WHERE e.purpose IS NULL AND a.ends_at > now() AND EXISTS (
        SELECT FROM tokens t
        WHERE t.app_id = e.app_id AND t.installation = e.installation AND t.purpose = 'activity_start:' || a.attributes_type
            AND (t.state <> 'retired') IS TRUE)
    ORDER BY 1, 2, 3;
END;

-- MARK: Notifications

-- How many deliveries of a notification ended in one way. status is NULL if APNs was not asked or did not answer.
CREATE TYPE outcome_count AS (class text, status smallint, reason text, count bigint);

-- These counts with more of them; a replay adds negative ones. APNs' reasons are few. If a notification has about 50 different counts, a new
-- reason counts without its word, so that a row stays small whatever comes. So does one that a replay takes back and that is not known by its
-- word.
CREATE FUNCTION with_outcomes(counts outcome_count[], more outcome_count[]) RETURNS outcome_count[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
    SELECT coalesce(array_agg(ROW(class, status, reason, count)::outcome_count ORDER BY class, status, reason), '{}')
    FROM (
        SELECT class, status, reason, sum(count)::bigint AS count
        FROM (
            SELECT class, status, reason, count FROM unnest(counts)
            UNION ALL
            SELECT m.class, m.status, CASE WHEN m.count > 0 AND cardinality(counts) + m.place <= 50 OR EXISTS (
                SELECT FROM unnest(counts) AS c
                WHERE (c.class, c.status, c.reason) IS NOT DISTINCT FROM (m.class, m.status, m.reason)) THEN m.reason END, m.count
            FROM unnest(more) WITH ORDINALITY AS m (class, status, reason, count, place)
        ) AS added GROUP BY class, status, reason
    ) AS summed WHERE count <> 0
);

-- Whether every one of these deliveries expired before it was published.
CREATE FUNCTION are_unsent(counts outcome_count[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN NOT EXISTS (SELECT FROM unnest(counts) WHERE reason IS DISTINCT FROM 'expired_before_publishing');

-- One accepted request, and its state. target_user and target_installation are NULL if it has several addressees: `targets` or the
-- expression in `fan_outs` names them.
CREATE TABLE notifications (
    id uuid PRIMARY KEY,
    app_id bigint NOT NULL,
    target_user text,
    target_installation uuid,
    -- The installation's owner epoch at acceptance. Another owner is another addressee.
    target_epoch bigint,
    lane text NOT NULL CHECK (lane IN ('now', 'soon', 'bulk')),
    push_type text NOT NULL,
    -- Of the tokens that it goes to; of a broadcast its channel.
    purpose text NOT NULL,
    topic text NOT NULL,
    priority smallint NOT NULL CHECK (priority IN (1, 5, 10)),
    collapse_id text CHECK (octet_length(collapse_id) <= 64),
    apns_expiration bigint,
    on_unknown text NOT NULL CHECK (on_unknown IN ('resend', 'resend_once', 'drop')),
    payload bytea NOT NULL CHECK (octet_length(payload) <= 5120),
    traceparent text NOT NULL,
    receipts text NOT NULL DEFAULT 'all' CHECK (receipts IN ('all', 'failures')),
    is_urgent boolean NOT NULL DEFAULT false,
    -- Whether its payloads name their jobs, so that devices can report what became of it.
    device_receipts boolean NOT NULL DEFAULT false,
    accepted_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    supersede_key text CHECK (octet_length(supersede_key) BETWEEN 1 AND 64),
    -- The update whose content goes again, to a device of the Live Activity that came after it. What stops that one stops the copy.
    copy_of uuid,
    state text NOT NULL
        CHECK (state IN ('accepted', 'scheduled', 'expanding', 'sending', 'completed', 'cancelled', 'expired', 'no_targets')),
    total integer NOT NULL CHECK (total >= 0),
    pending integer NOT NULL CHECK (pending BETWEEN 0 AND total),
    -- How the others ended: in the row that every outcome changes, so that its end and its readers need no receipt.
    outcomes outcome_count[] NOT NULL DEFAULT '{}',
    -- What devices reported, if the sender asked for it, a moment later.
    shown integer NOT NULL DEFAULT 0,
    opened integer NOT NULL DEFAULT 0,
    dismissed integer NOT NULL DEFAULT 0,
    -- How many jobs were made.
    jobs integer NOT NULL DEFAULT 0,
    completed_at timestamptz,
    -- Whether the app had subscribers of its state changes when it was accepted.
    is_reported boolean NOT NULL DEFAULT false,
    CHECK (num_nonnulls(target_user, target_installation) <= 1)
) PARTITION BY RANGE (id);
CREATE INDEX notifications_by_app ON notifications (app_id, id);
CREATE INDEX notifications_by_user ON notifications (app_id, target_user, id) WHERE target_user IS NOT NULL;
CREATE INDEX notifications_by_installation ON notifications (app_id, target_installation, id) WHERE target_installation IS NOT NULL;
CREATE INDEX notifications_superseding ON notifications (app_id, supersede_key, coalesce(target_user, target_installation::text))
    WHERE supersede_key IS NOT NULL AND completed_at IS NULL;
-- The same condition as in in_use_until: those that are scheduled further ahead.
CREATE INDEX notifications_lasting ON notifications (expires_at) WHERE expires_at - accepted_at > interval '4 days';

-- The work of making a notification's jobs, if its acceptance does not make them. Each page is one transaction that makes jobs and moves
-- the checkpoint.
CREATE TABLE fan_outs (
    notification uuid PRIMARY KEY,
    app_id bigint NOT NULL,
    lane text NOT NULL,
    target text NOT NULL CHECK (target IN ('user', 'users', 'installation', 'installations', 'tokens', 'tags', 'all', 'channel',
        'channel_and_activities')),
    -- How many entries a list has, known or not; NULL if the target is found among the app's installations, or is a channel.
    entries integer CHECK (entries > 0),
    -- The canonical text of a tag expression, and its query.
    tags text,
    query tsquery,
    -- A page has found more installations with its tags than PostgreSQL's statistics said: the next ones go through the app's installations.
    are_tags_common boolean NOT NULL DEFAULT false,
    -- A notification is due at not_before; with local_time each delivery is due at that time in the device's zone.
    not_before timestamptz,
    local_time timestamp,
    -- Each delivery's lifetime, from the moment at which it is due; never beyond expires_at.
    lifetime_ms bigint CHECK (lifetime_ms > 0),
    -- The first moment at which a delivery may be due.
    due_at timestamptz NOT NULL,
    -- Of a list: the last place that was read. Of an app's installations, or of a channel's activities: the last ordinal.
    checkpoint bigint NOT NULL DEFAULT 0,
    -- The next entry of the list is a user with many installations, or the next activity is such a user's, read in several pages: the next
    -- one of them.
    checkpoint_installation uuid,
    -- From then on any process may go on with it; never before the begin of the transaction that sets it. NULL if all jobs are made, or the
    -- notification was stopped.
    free_from timestamptz,
    held_by uuid,
    -- When all jobs were made. NULL for ever if the notification was stopped before.
    ended_at timestamptz,
    CHECK (num_nonnulls(not_before, local_time) <= 1),
    CHECK ((target IN ('tags', 'all', 'channel', 'channel_and_activities')) = (entries IS NULL) AND (target = 'tags') = (query IS NOT NULL)),
    CHECK (num_nonnulls(free_from, ended_at) <= 1)
) PARTITION BY RANGE (notification);
-- What waits for a process. Beside an open snapshot the entries of what has ended stay in it, so no statement that knows a notification
-- may go by it: only one that says IS TRUE does.
CREATE INDEX fan_outs_free ON fan_outs (lane, app_id, free_from) WHERE (free_from IS NOT NULL) IS TRUE;
CREATE INDEX fan_outs_held ON fan_outs (held_by, notification) WHERE held_by IS NOT NULL;

-- The entries of a list: one row for each user, installation, or token with the installation that had it at acceptance. A token without an
-- installation has no row.
CREATE TABLE targets (
    notification uuid NOT NULL,
    -- The place in the list, from 1.
    place integer NOT NULL,
    app_id bigint NOT NULL,
    owner text,
    installation uuid,
    -- At acceptance; NULL if the installation was not known. Another owner is another addressee.
    owner_epoch bigint,
    token bytea,
    PRIMARY KEY (notification, place),
    CHECK (num_nonnulls(owner, installation) = 1)
) PARTITION BY RANGE (notification);
CREATE INDEX targets_by_owner ON targets (app_id, owner, notification) WHERE owner IS NOT NULL;
CREATE INDEX targets_by_installation ON targets (app_id, installation, notification) WHERE installation IS NOT NULL;

-- The users, installations and tokens that a notification names, one or many.
CREATE VIEW addressees AS
SELECT id AS notification, 1 AS place, app_id, target_user AS owner, target_installation AS installation, target_epoch AS owner_epoch,
    NULL::bytea AS token
FROM notifications WHERE target_user IS NOT NULL OR target_installation IS NOT NULL
UNION ALL
SELECT notification, place, app_id, owner, installation, owner_epoch, token FROM targets;

-- Notifications that a caller or a newer notification stopped.
CREATE TABLE cancellations (
    notification uuid PRIMARY KEY,
    at timestamptz NOT NULL,
    reason text NOT NULL CHECK (reason IN ('cancelled', 'superseded')),
    -- When the control stream got it; if no dispatcher needs it, when it was stopped. See may_be_at_broker.
    published_at timestamptz,
    -- Its jobs up to this number have become due, and since this moment all of them, so that they get their outcome.
    hastened_through integer NOT NULL DEFAULT -1,
    hastened_at timestamptz,
    -- Until hastened_at: from then on the relay makes the next ones due. Never before the begin of the transaction that sets it.
    hasten_from timestamptz NOT NULL DEFAULT now()
) PARTITION BY RANGE (notification);
CREATE INDEX cancellations_unpublished ON cancellations (at) WHERE published_at IS NULL;
CREATE INDEX cancellations_unhastened ON cancellations (hasten_from) WHERE hastened_at IS NULL;

-- A notification as a reader sees it. expanded_at: its jobs are made, or no more will be.
CREATE VIEW notification_records AS
SELECT n.*, f.target, f.entries, f.tags, f.not_before, f.due_at, to_char(f.local_time, 'YYYY-MM-DD"T"HH24:MI') AS local_text,
    f.notification IS NOT NULL AS is_fanned_out,
    CASE WHEN f.notification IS NULL THEN n.accepted_at ELSE coalesce(f.ended_at, c.at) END AS expanded_at,
    c.at AS cancelled_at, c.reason AS cancel_reason
FROM notifications n LEFT JOIN fan_outs f ON f.notification = n.id LEFT JOIN cancellations c ON c.notification = n.id;

-- Notifications as a list shows them, without their payload, and the most bytes of JSON that each takes there.
CREATE VIEW notification_summaries AS
SELECT id, app_id, state, lane, push_type, purpose, target_user, target_installation, target, entries, tags, receipts, accepted_at, not_before,
    local_text, expires_at, completed_at, cancelled_at, cancel_reason, total, pending,
    650 + octet_length(to_json(concat(target_user, purpose, tags))::text) AS bytes
FROM notification_records;

-- The APNs body for installations of one locale.
CREATE TABLE notification_variants (
    notification uuid NOT NULL,
    locale text NOT NULL,
    payload bytea NOT NULL CHECK (octet_length(payload) <= 5120),
    PRIMARY KEY (notification, locale)
) PARTITION BY RANGE (notification);

-- One Idempotency-Key, one notification. While a transaction uses a key, it holds the key's lock, and no other transaction inserts it. A key is known on the day of its
-- first use and on the next day, UTC. NotificationStore.claimKeys explains how it stays unique at midnight.
CREATE TABLE idempotency_records (
    app_id bigint NOT NULL,
    api_key_id text NOT NULL,
    key text NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    day timestamptz NOT NULL,
    fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    notification uuid NOT NULL,
    -- The warnings of the first answer, so that a repeat gives the same: JSON, an array of pointer and code.
    warnings text NOT NULL DEFAULT '[]',
    PRIMARY KEY (app_id, api_key_id, key, day)
) PARTITION BY RANGE (day);
CREATE INDEX idempotency_records_by_notification ON idempotency_records (notification);

-- The advisory lock of a key. Two keys that share one only wait for each other.
CREATE FUNCTION idempotency_lock(app bigint, caller text, key text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended(app::text || ' ' || caller || ' ' || key, 1);

-- One message in the broker: up to 100 deliveries of one notification, with one moment and one payload. The acceptance makes the jobs of a
-- small target, fan-out those of any other.
CREATE TABLE jobs (
    notification uuid NOT NULL,
    -- From 0.
    number integer NOT NULL,
    app_id bigint NOT NULL,
    lane text NOT NULL,
    -- Of the variant; '' is the default.
    locale text NOT NULL,
    due_at timestamptz NOT NULL,
    -- Token ids of eight bytes each, big-endian. A delivery's id names its place here. A broadcast's job has one member: the channel's id,
    -- negated.
    members bytea NOT NULL CHECK (octet_length(members) BETWEEN 8 AND 800),
    -- One bit for each member whose token was registered for the sandbox when the job was made; the others for production.
    sandbox bit(100) NOT NULL DEFAULT B'0'::bit(100),
    -- One bit for each member that has its final outcome, and for each that a replay reopened.
    ended bit(100) NOT NULL DEFAULT B'0'::bit(100),
    -- From then on any process may publish it: when it is due, or when the lease of the process that publishes it ends. Never before the
    -- begin of the transaction that sets it: see `low_water`.
    free_from timestamptz NOT NULL,
    published_at timestamptz,
    held_by uuid,
    PRIMARY KEY (notification, number)
) PARTITION BY RANGE (notification);
-- IS TRUE: see fan_outs_free. The last column is 0 for a notification's first job: WaitingWorkStore.backlog counts these, and passes over the
-- entries of the others without their rows.
CREATE INDEX jobs_unpublished ON jobs (lane, app_id, free_from, least(number, 1)) WHERE (published_at IS NULL) IS TRUE;
-- No published job is held.
CREATE INDEX jobs_held ON jobs (held_by, notification, number) WHERE held_by IS NOT NULL;

-- Whether a job of a notification was published, or a process may be publishing one. `made` is its number of jobs. The caller's transaction
-- has locked the notification and stops it, so no fan-out adds a job. A job is untouched if its free_from is still the moment that fan-out
-- gave it: each process that takes a job writes another one. The function locks untouched jobs, so a process that takes one later finds the
-- notification stopped. It waits for no lock, because processes lock jobs before notifications: a locked job counts as taken. So do all jobs
-- of a notification with many.
CREATE FUNCTION may_be_at_broker(of_notification uuid, made integer, expires_at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF made = 0 THEN
        RETURN false;
    ELSIF made > 10 THEN
        RETURN true;
    END IF;
    RETURN made > (
        SELECT count(*) FROM (
            SELECT FROM jobs j
            WHERE j.notification = of_notification AND j.published_at IS NULL AND j.free_from = least(j.due_at, may_be_at_broker.expires_at)
            ORDER BY j.number LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED
        ) AS untouched);
END $$;

-- The outcome of one delivery: written when it is applied, and before that when an attempt failed and another follows. Its key is its
-- delivery's place. If a notification keeps receipts of failures alone, a delivery that APNs accepted at the first attempt has none. A
-- receipt outlives its token, which may be erased.
CREATE TABLE receipts (
    notification uuid NOT NULL,
    number integer NOT NULL,
    "position" smallint NOT NULL CHECK ("position" BETWEEN 0 AND 99),
    token_id bigint NOT NULL,
    installation uuid NOT NULL,
    -- The epoch of the owner that the delivery was for; 0 if its outcome does not name it.
    owner_epoch bigint NOT NULL,
    environment text NOT NULL CHECK (environment IN ('production', 'sandbox')),
    -- NULL until the outcome is final.
    class text CHECK (class IN ('accepted', 'token_gone', 'token_rejected', 'throttled', 'rejected', 'misconfigured', 'expired',
        'fenced', 'held', 'cancelled', 'failed', 'unknown')),
    status smallint,
    reason text,
    attempts integer NOT NULL DEFAULT 0,
    -- APNs' id of the last push that it answered, for Apple's Push Notifications Console. Only the sandbox sends one.
    apns_unique_id text,
    -- The last attempt that was not the end.
    last_class text,
    last_status smallint,
    last_reason text,
    last_at timestamptz,
    retry_at timestamptz,
    -- A replay reopened it: from then on this row says whether the delivery has its outcome, and not the bit in its job.
    is_replayed boolean NOT NULL DEFAULT false,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (notification, number, "position")
) PARTITION BY RANGE (notification);
CREATE INDEX receipts_of_installation ON receipts (installation, notification);

-- What devices reported of a delivery: that it was shown, opened or dismissed, each once.
CREATE TABLE device_receipts (
    notification uuid NOT NULL,
    number integer NOT NULL,
    "position" smallint NOT NULL,
    event text NOT NULL CHECK (event IN ('shown', 'opened', 'dismissed')),
    -- The order in which events are published.
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    app_id bigint NOT NULL,
    installation uuid NOT NULL,
    -- The installation's when the service took the receipt.
    owner_epoch bigint NOT NULL,
    -- By the device's clock, but between the publication and the report.
    at timestamptz NOT NULL,
    PRIMARY KEY (notification, number, "position", event)
) PARTITION BY RANGE (notification);
CREATE INDEX device_receipts_in_order ON device_receipts (id);
CREATE INDEX device_receipts_of_installation ON device_receipts (installation, owner_epoch);

-- When a device reported the event; NULL if it did not.
CREATE FUNCTION reported_at(of_notification uuid, of_number integer, of_position integer, of_event text) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (
    SELECT at FROM device_receipts
    WHERE notification = of_notification AND number = of_number AND "position" = of_position AND event = of_event
);

-- The token of the member at a position; NULL if there is none. Not STRICT: PostgreSQL would call it for each member instead of inlining
-- it.
CREATE FUNCTION member_at(members bytea, "position" integer) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN octet_length(members) >= "position" * 8 + 8
    THEN ('x' || encode(substring(members FROM "position" * 8 + 1 FOR 8), 'hex'))::bit(64)::bigint END;

-- The members of a job, in the order of their positions.
CREATE FUNCTION members_of(job jobs) RETURNS TABLE ("position" integer, token_id bigint, has_ended boolean)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT place, member_at(job.members, place), get_bit(job.ended, place) = 1
    FROM generate_series(0, octet_length(job.members) / 8 - 1) AS place;
END;

-- A delivery's id is its place: 74 bits of SHA-256 over its notification's id, the job's number in 32 bits, the position in 16; marked as a UUID
-- of version 8 (RFC 9562 section 5.8). A place belongs to one token for ever, so an outcome finds its delivery without an index, and a
-- delivery has one id however often its job is published: it is the apns-id.
CREATE FUNCTION delivery_id(notification uuid, number integer, "position" integer) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (
    SELECT encode(
        set_byte(set_byte(digest, 6, get_byte(digest, 6) & 15 | 128), 8, get_byte(digest, 8) & 63 | 128)
            || int4send(number) || int2send("position"::smallint), 'hex')::uuid
    FROM (SELECT substring(sha256(uuid_send(notification)) FROM 1 FOR 10) AS digest) AS name
);

-- Receipts with their deliveries' ids and what the devices reported.
CREATE VIEW reported_receipts AS
SELECT r.*, delivery_id(r.notification, r.number, r."position") AS id, reported_at(r.notification, r.number, r."position", 'shown') AS shown_at,
    reported_at(r.notification, r.number, r."position", 'opened') AS opened_at,
    reported_at(r.notification, r.number, r."position", 'dismissed') AS dismissed_at
FROM receipts r;

-- Every known delivery: those with a receipt, and those that are under way without one, which are members of their jobs. The latter are
-- shown with the installation that has the token now. Read it by notification: each row of `jobs` makes up to a hundred.
CREATE VIEW deliveries AS
SELECT r.id, r.notification, r.number, r."position", r.token_id, r.installation,
    r.owner_epoch, r.environment, r.class, r.status, r.reason, r.attempts, r.last_class, r.last_status, r.last_reason, r.last_at, r.retry_at,
    r.is_replayed, r.updated_at, true AS has_receipt, r.apns_unique_id,
    r.shown_at, r.opened_at, r.dismissed_at
FROM reported_receipts r
UNION ALL
SELECT delivery_id(j.notification, j.number, m."position"), j.notification, j.number, m."position"::smallint, m.token_id,
    coalesce(i.id, '00000000-0000-0000-0000-000000000000'), coalesce(i.owner_epoch, 1),
    CASE get_bit(j.sandbox, m."position") WHEN 1 THEN 'sandbox' ELSE 'production' END,
    NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, false, j.due_at, false, NULL,
    reported_at(j.notification, j.number, m."position", 'shown'), reported_at(j.notification, j.number, m."position", 'opened'),
    reported_at(j.notification, j.number, m."position", 'dismissed')
FROM jobs j CROSS JOIN LATERAL members_of(j) AS m
LEFT JOIN LATERAL (
    SELECT i.id, i.owner_epoch FROM tokens t JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation
    WHERE t.id = m.token_id LIMIT 1
) AS i ON true
WHERE NOT m.has_ended
    AND (
        SELECT count(*) = 0 FROM receipts r
        WHERE r.notification = j.notification AND r.number = j.number AND r."position" = m."position");

-- Final outcomes by app and minute: the brake on rejections reads them instead of counting deliveries.
CREATE TABLE outcome_counts (
    app_id bigint NOT NULL REFERENCES apps,
    minute timestamptz NOT NULL,
    class text NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (app_id, minute, class)
);
CREATE INDEX outcome_counts_by_minute ON outcome_counts (minute);

-- "Stop what matches this", set and lifted by an operator. A row stays as long as the audit trail: it records who, when and why. A NULL
-- column does not limit it.
CREATE TABLE holds (
    id uuid PRIMARY KEY,
    -- NULL: of every app.
    app_id bigint REFERENCES apps,
    lane text CHECK (lane IN ('now', 'soon', 'bulk')),
    notification uuid,
    reason text NOT NULL CHECK (octet_length(reason) BETWEEN 1 AND 500),
    set_at timestamptz NOT NULL,
    -- The id of an API key, as in lifted_by.
    set_by text NOT NULL,
    ends_at timestamptz NOT NULL DEFAULT 'infinity',
    lifted_at timestamptz,
    lifted_by text,
    -- When the control stream last confirmed it, or its lifting if it is lifted.
    published_at timestamptz,
    -- It is lifted, and no job or fan-out waits because of it any more.
    released_at timestamptz,
    CHECK (num_nonnulls(lane, notification) <= 1),
    CHECK (notification IS NULL OR app_id IS NOT NULL),
    CHECK ((lifted_at IS NULL) = (lifted_by IS NULL))
);
CREATE INDEX holds_in_force ON holds (ends_at) WHERE lifted_at IS NULL;
CREATE INDEX holds_being_lifted ON holds (lifted_at) WHERE lifted_at IS NOT NULL AND (published_at IS NULL OR released_at IS NULL);
CREATE INDEX holds_by_app ON holds (app_id, id);
-- When it was lifted, or ended by itself. Of those that last until they are lifted it is infinity.
CREATE INDEX holds_by_end ON holds (least(lifted_at, ends_at));

CREATE VIEW holds_with_state AS
SELECT h.id, h.app_id, a.slug AS app, h.lane, h.notification, h.reason, h.set_at, h.set_by, nullif(h.ends_at, 'infinity') AS ends_at,
    h.lifted_at, h.lifted_by, h.published_at,
    CASE WHEN h.lifted_at IS NOT NULL THEN 'lifted' WHEN h.ends_at <= now() THEN 'expired' ELSE 'live' END AS state
FROM holds h LEFT JOIN apps a ON a.id = h.app_id;

-- MARK: Events

-- The HTTP receivers of events. Deliveries are signed with the secrets, so they are stored as they are.
CREATE TABLE webhooks (
    id uuid PRIMARY KEY,
    app_id bigint NOT NULL REFERENCES apps,
    url text NOT NULL CHECK (octet_length(url) BETWEEN 1 AND 2048),
    events text[] NOT NULL CHECK (cardinality(events) BETWEEN 1 AND 50),
    description text CHECK (octet_length(description) BETWEEN 1 AND 200),
    secret bytea NOT NULL CHECK (octet_length(secret) BETWEEN 24 AND 64),
    previous_secret bytea,
    previous_until timestamptz,
    -- NULL while it is enabled. A deleted one is there until its messages are removed.
    disabled_reason text CHECK (disabled_reason IN ('by_request', 'gone', 'failing', 'backlog_full', 'deleted')),
    disabled_at timestamptz,
    -- Before, twice as many messages may wait: it was enabled again, and sends its backlog.
    limited_from timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Since when no delivery has succeeded; NULL after one that has.
    failing_since timestamptz,
    last_success_at timestamptz,
    last_failure_at timestamptz,
    last_failure text,
    CHECK ((previous_secret IS NULL) = (previous_until IS NULL)),
    CHECK ((disabled_reason IS NULL) = (disabled_at IS NULL))
);
CREATE INDEX webhooks_by_app ON webhooks (app_id, id);

-- Those that are not deleted, without a previous secret that is no longer valid.
CREATE VIEW current_webhooks AS
SELECT w.id, w.app_id, a.slug AS app, w.url, w.events, w.description, w.secret,
    CASE WHEN w.previous_until > now() THEN w.previous_secret END AS previous_secret,
    CASE WHEN w.previous_until > now() THEN w.previous_until END AS previous_until,
    w.disabled_reason, w.disabled_at, w.created_at, w.failing_since, w.last_success_at, w.last_failure_at, w.last_failure
FROM webhooks w JOIN apps a ON a.id = w.app_id WHERE w.disabled_reason IS DISTINCT FROM 'deleted';

-- One event for one webhook. While it is pending, due_at is the next attempt, or the end of the lease of the process that makes one. Never
-- before the begin of the transaction that sets it: see `low_water`.
CREATE TABLE webhook_messages (
    webhook uuid NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    id uuid NOT NULL,
    topic text NOT NULL,
    body bytea NOT NULL,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    settled_at timestamptz,
    last_at timestamptz,
    last_status smallint,
    last_error text,
    PRIMARY KEY (webhook, id),
    CHECK ((state = 'pending') = (settled_at IS NULL))
);
CREATE INDEX webhook_messages_due ON webhook_messages (webhook, due_at) WHERE state = 'pending';
CREATE INDEX webhook_messages_by_age ON webhook_messages (created_at);
CREATE INDEX webhook_messages_failed ON webhook_messages (webhook, id) WHERE state = 'failed';

-- State changes of notifications. A reader stays behind the oldest open transaction, so that it misses none that commits late.
CREATE TABLE notification_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id bigint NOT NULL,
    notification uuid NOT NULL,
    event text NOT NULL,
    at timestamptz NOT NULL
);

-- A trigger, so that no statement that changes a state can forget its event. It runs only if an app wants the events. The acceptance makes
-- the jobs of a small target: such a notification is accepted and sending at once.
CREATE FUNCTION report_notification_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' AND NEW.state = 'sending' THEN
        INSERT INTO notification_events (app_id, notification, event, at) VALUES (NEW.app_id, NEW.id, 'accepted', now());
    END IF;
    INSERT INTO notification_events (app_id, notification, event, at)
    VALUES (NEW.app_id, NEW.id,
        CASE WHEN NEW.state = 'cancelled' THEN (SELECT reason FROM cancellations WHERE notification = NEW.id) ELSE NEW.state END, now());
    RETURN NULL;
END $$;
CREATE TRIGGER notifications_reported_new AFTER INSERT ON notifications
    FOR EACH ROW WHEN (NEW.is_reported) EXECUTE FUNCTION report_notification_state();
CREATE TRIGGER notifications_reported_change AFTER UPDATE ON notifications
    FOR EACH ROW WHEN (NEW.is_reported AND NEW.state <> OLD.state) EXECUTE FUNCTION report_notification_state();

-- The position of each sink in each log. An app whose events wait for its queues or for its share is behind, at a position of its own.
CREATE TABLE event_feeds (
    log text NOT NULL CHECK (log IN ('notifications', 'installations', 'device_receipts')),
    -- The counts are those of the notifications.
    sink text NOT NULL CHECK (sink IN ('broker', 'webhooks') OR sink = 'counts' AND log = 'device_receipts'),
    position bigint NOT NULL,
    behind_apps bigint[] NOT NULL DEFAULT '{}',
    behind_positions bigint[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (log, sink)
);
INSERT INTO event_feeds (log, sink, position)
SELECT log, sink, 0 FROM (VALUES ('notifications'), ('installations'), ('device_receipts')) AS logs (log), (VALUES ('broker'), ('webhooks')) AS sinks (sink)
UNION ALL VALUES ('device_receipts', 'counts', 0);

-- Device receipts up to the position of the sink `counts` that are not in their notification's counts yet: its row was locked or damaged, or an
-- erasure removed them first. A transaction that writes here holds the row of that sink.
CREATE TABLE counts_to_add (
    notification uuid PRIMARY KEY,
    shown bigint NOT NULL,
    opened bigint NOT NULL,
    dismissed bigint NOT NULL
);

-- MARK: Partitions

-- The tables that grow with acceptance are partitioned by time, so that a whole period goes when its retention is over. Rows that belong to a
-- notification are partitioned by its id, which begins with the moment of its acceptance: the eight tables have the same periods.
--
-- jobs_20261121_0000   One period. The housekeeper makes periods ahead of time and drops them.
-- jobs_rest            Rows that came while their period was missing. They become a period of their own.

-- The moment that a time-ordered id begins with (RFC 9562 section 5.7).
CREATE FUNCTION time_of(id uuid) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0);

CREATE FUNCTION first_id_at(moment timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (lpad(to_hex(floor(extract(epoch FROM moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;

-- A new time-ordered id (RFC 9562 section 5.7).
CREATE FUNCTION new_id() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN overlay(overlay(gen_random_uuid()::text PLACING '7' FROM 15 FOR 1)
    PLACING left(first_id_at(clock_timestamp())::text, 13) FROM 1 FOR 13)::uuid;

-- `key` is the column by which a table is partitioned. Tables of one family have the same periods; a family has the name of its first
-- table.
CREATE VIEW partitioned_tables AS
SELECT * FROM (VALUES
    ('notifications', 'notifications', 'id'), ('notification_variants', 'notifications', 'notification'),
    ('fan_outs', 'notifications', 'notification'), ('targets', 'notifications', 'notification'),
    ('cancellations', 'notifications', 'notification'),
    ('jobs', 'notifications', 'notification'), ('receipts', 'notifications', 'notification'),
    ('device_receipts', 'notifications', 'notification'),
    ('installation_history', 'installation_history', 'at'), ('audit', 'installation_history', 'at'),
    ('idempotency_records', 'idempotency_records', 'day')
) AS t (table_name, family, key);

-- Without `…_rest`.
CREATE VIEW partitions AS
SELECT t.table_name, t.family, b.name,
    CASE t.family WHEN 'notifications' THEN time_of(b.bounds[1]::uuid) ELSE b.bounds[1]::timestamptz END AS begins_at,
    CASE t.family WHEN 'notifications' THEN time_of(b.bounds[2]::uuid) ELSE b.bounds[2]::timestamptz END AS ends_at
FROM partitioned_tables t CROSS JOIN LATERAL (
    SELECT c.relname::text AS name, regexp_match(pg_get_expr(c.relpartbound, c.oid), $$FROM \('(.*)'\) TO \('(.*)'\)$$) AS bounds
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = t.table_name::regclass
) AS b WHERE b.bounds IS NOT NULL;

-- The first key of a moment, as text.
CREATE FUNCTION key_at(of_family text, moment timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE of_family WHEN 'notifications' THEN first_id_at(moment)::text ELSE moment::text END;

-- Makes a table that can become a partition: with the columns, constraints, indexes and privileges of the partitioned one.
CREATE FUNCTION new_partition(of_table text, name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE statement text;
BEGIN
    -- Every row of these gets a new version or two soon after it is written, so the dead ones do not become more with the table. A vacuum costs
    -- a pass over the partition's indexes: at 10,000 notifications a second one begins every half a minute while a partition is small, and
    -- every five minutes when it has 100 million rows.
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)
        WITH (fillfactor = %s, autovacuum_vacuum_scale_factor = %s, autovacuum_vacuum_threshold = 200000)', name, of_table,
        -- Room in every page for the versions that follow: published, then its outcomes.
        CASE of_table WHEN 'notifications' THEN 50 WHEN 'jobs' THEN 70 WHEN 'fan_outs' THEN 70 ELSE 100 END,
        CASE WHEN of_table IN ('notifications', 'jobs', 'fan_outs', 'cancellations') THEN '0.03' ELSE '0.2' END);
    FOR statement IN
        SELECT format('GRANT %s ON %I TO %I', acl.privilege_type, name, r.rolname)
        FROM pg_class c CROSS JOIN aclexplode(c.relacl) AS acl JOIN pg_roles r ON r.oid = acl.grantee
        WHERE c.oid = of_table::regclass AND acl.grantee <> c.relowner
    LOOP
        EXECUTE statement;
    END LOOP;
END $$;

CREATE FUNCTION attach_partition(t partitioned_tables, name text, begins timestamptz, ends timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', t.table_name, name, key_at(t.family, begins),
        key_at(t.family, ends));
END $$;

-- Locks tables for this transaction alone, all of them or none. Every later statement waits behind the attempt, so an attempt waits 50 ms
-- at most for each table, and releases the others before it pauses.
CREATE FUNCTION lock_alone(tables text[]) RETURNS void LANGUAGE plpgsql SET lock_timeout = '50ms' AS $$
DECLARE of_table text;
BEGIN
    FOR attempt IN 1..10 LOOP
        BEGIN
            FOREACH of_table IN ARRAY tables LOOP
                EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', of_table);
            END LOOP;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.5 + random());
        END;
    END LOOP;
    RAISE lock_not_available USING MESSAGE = format('%s is never free for 50 ms', of_table);
END $$;

-- How many rows of a family came while their period was missing, counted to 10,000, and the moment of the last one.
CREATE FUNCTION rows_without_period(of_family text) RETURNS TABLE (count bigint, latest timestamptz)
LANGUAGE plpgsql STABLE SET search_path = public, pg_temp AS $$
DECLARE
    t partitioned_tables;
    covered_from text := key_at(of_family, (SELECT max(ends_at) FROM partitions WHERE table_name = of_family));
    found record;
BEGIN
    count := 0;
    FOR t IN SELECT * FROM partitioned_tables WHERE family = of_family LOOP
        EXECUTE format(
            'SELECT count(*) AS count, (SELECT %2$I FROM %1$I ORDER BY %2$I DESC LIMIT 1)::text AS key
            FROM (SELECT FROM %1$I WHERE %3$L IS NULL OR %2$I >= %3$L LIMIT 10000) AS rows',
            t.table_name || '_rest', t.key, covered_from) INTO found;
        CONTINUE WHEN found.count = 0;
        count := count + found.count;
        latest := greatest(latest, CASE of_family WHEN 'notifications' THEN time_of(found.key::uuid) ELSE found.key::timestamptz END);
    END LOOP;
    RETURN NEXT;
END $$;

-- TRUNCATE makes a partition that was analyzed while it was empty one that was never analyzed. For the former, a plan that reads the whole
-- index looks as cheap as any, and is kept when the rows come; of the latter PostgreSQL expects ten pages.
CREATE FUNCTION forget_emptiness(of_family text, as_of timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    tables text[] := ARRAY(
        SELECT p.name FROM partitions p JOIN pg_class c ON c.oid = p.name::regclass
        WHERE p.family = of_family AND p.ends_at > as_of AND c.reltuples = 0 AND pg_relation_size(c.oid) = 0);
    name text;
    has_rows boolean;
BEGIN
    PERFORM lock_alone(tables);
    FOREACH name IN ARRAY tables LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %I)', name) INTO has_rows;
        IF NOT has_rows THEN
            EXECUTE format('TRUNCATE %I', name);
        END IF;
    END LOOP;
END $$;

-- Makes the next period of a family, unless one period lies ahead. Where rows came without a period, `…_rest` becomes one first.
--
-- ATTACH PARTITION locks `…_rest` alone. A statement that reads or changes rows locks `…_rest` too, an insert does not.
CREATE FUNCTION make_partition(of_family text, period interval, as_of timestamptz) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    tables text[] := ARRAY(SELECT table_name FROM partitioned_tables WHERE family = of_family);
    rests text[] := ARRAY(SELECT table_name || '_rest' FROM partitioned_tables WHERE family = of_family);
    t partitioned_tables;
    begins timestamptz;
    ends timestamptz;
    rest record;
    suffix text;
BEGIN
    IF tables = '{}' OR period < interval '1 hour' THEN
        RAISE insufficient_privilege USING MESSAGE = format('there are no partitions of %s for %s', of_family, period);
    END IF;
    -- One process at a time. No statement of a caller waits for this lock.
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', of_family);
    SELECT max(ends_at) INTO begins FROM partitions WHERE table_name = of_family;
    IF begins >= as_of + period THEN
        PERFORM forget_emptiness(of_family, as_of);
        RETURN;
    END IF;
    -- The first period begins early: a process whose clock is behind makes ids of yesterday.
    begins := coalesce(begins, date_trunc('day', as_of, 'UTC') - period);
    suffix := to_char(begins AT TIME ZONE 'UTC', '_YYYYMMDD_HH24MI');
    SELECT * INTO rest FROM rows_without_period(of_family);
    IF rest.count = 0 THEN
        ends := greatest(begins, date_trunc('day', as_of, 'UTC')) + period;
        FOREACH t.table_name IN ARRAY tables LOOP
            PERFORM new_partition(t.table_name, t.table_name || suffix);
        END LOOP;
        PERFORM lock_alone(rests);
        SELECT * INTO rest FROM rows_without_period(of_family);
        IF rest.count > 0 THEN
            RAISE lock_not_available USING MESSAGE = format('rows of %s came without a period meanwhile', of_family);
        END IF;
    ELSE
        PERFORM lock_alone(tables || rests);
        SELECT * INTO rest FROM rows_without_period(of_family);
        -- A process whose clock was far ahead makes no period longer. Its rows stay in `…_rest` until their time comes.
        ends := CASE WHEN rest.latest < as_of + period THEN date_trunc('minute', greatest(as_of, rest.latest)) + interval '1 minute'
            ELSE greatest(begins, date_trunc('day', as_of, 'UTC')) + period END;
        FOR t IN SELECT * FROM partitioned_tables WHERE family = of_family LOOP
            EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', t.table_name, t.table_name || '_rest');
            EXECUTE format('ALTER TABLE %I RENAME TO %I', t.table_name || '_rest', t.table_name || suffix);
            PERFORM new_partition(t.table_name, t.table_name || '_rest');
            EXECUTE format('WITH others AS (DELETE FROM %1$I WHERE %2$I < %3$L OR %2$I >= %4$L RETURNING *) INSERT INTO %5$I SELECT * FROM others',
                t.table_name || suffix, t.key, key_at(of_family, begins), key_at(of_family, ends), t.table_name || '_rest');
        END LOOP;
    END IF;
    FOR t IN SELECT * FROM partitioned_tables WHERE family = of_family LOOP
        PERFORM attach_partition(t, t.table_name || suffix, begins, ends);
        IF rest.count > 0 THEN
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I DEFAULT', t.table_name, t.table_name || '_rest');
        END IF;
        RETURN NEXT t.table_name || suffix;
    END LOOP;
END $$;

-- Until when a period's rows are in use. A notification that is due at once is over four days after its acceptance: its lifetime is three
-- days at the most, and devices of other time zones may get it a day later. Notifications that are scheduled further ahead are looked up.
CREATE FUNCTION in_use_until(p partitions) RETURNS timestamptz LANGUAGE plpgsql STABLE SET search_path = public, pg_temp AS $$
DECLARE last_expiry timestamptz;
BEGIN
    IF p.family = 'idempotency_records' THEN
        RETURN p.ends_at + interval '1 day';
    ELSIF p.family = 'installation_history' THEN
        RETURN p.ends_at;
    END IF;
    EXECUTE format('SELECT max(expires_at) FROM %I WHERE expires_at - accepted_at > interval ''4 days''', replace(p.name, p.table_name, 'notifications'))
    INTO last_expiry;
    RETURN greatest(p.ends_at + interval '4 days', last_expiry);
END $$;

-- Drops a table of the oldest period of a family whose rows have been out of use for the retention. The family's first table goes last: as
-- long as it stays, the period is not gone.
CREATE FUNCTION drop_partition(of_family text, retention interval, as_of timestamptz) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    t partitioned_tables;
    passed timestamptz;
    dropped partitions;
BEGIN
    IF retention < '0' OR NOT EXISTS (SELECT FROM partitioned_tables WHERE family = of_family) THEN
        RAISE insufficient_privilege USING MESSAGE = format('%s keeps no rows for %s', of_family, retention);
    END IF;
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', of_family);
    -- From a process whose clock was far behind. No notification is in use for longer than 35 days.
    FOR t IN SELECT * FROM partitioned_tables WHERE family = of_family LOOP
        EXECUTE format('DELETE FROM %I WHERE %I < %L', t.table_name || '_rest', t.key, key_at(of_family, as_of - retention - interval '35 days'));
    END LOOP;
    passed := (SELECT min(p.begins_at) FROM partitions p WHERE p.table_name = of_family AND in_use_until(p) <= as_of - retention);
    SELECT * INTO dropped FROM partitions p WHERE p.family = of_family AND p.begins_at = passed ORDER BY p.table_name = of_family, p.name LIMIT 1;
    IF dropped.name IS NULL THEN
        RETURN;
    END IF;
    -- A VACUUM may hold the partition for long. No statement of a caller waits behind this lock.
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', dropped.name);
    PERFORM lock_alone(ARRAY[dropped.table_name, dropped.name]);
    EXECUTE format('DROP TABLE %I', dropped.name);
    RETURN NEXT dropped.name;
END $$;

-- For each family: until when rows have a period, since when the oldest period is out of use, and how many rows came without one.
CREATE FUNCTION partition_states() RETURNS TABLE (family text, covered_until timestamptz, in_use_until timestamptz, rest_rows bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT f.family, (SELECT max(p.ends_at) FROM partitions p WHERE p.table_name = f.family),
        (SELECT min(in_use_until(p)) FROM partitions p WHERE p.table_name = f.family), (SELECT r.count FROM rows_without_period(f.family) r)
    FROM partitioned_tables f WHERE f.table_name = f.family;
END;

-- The service's account may not change tables. It may call make_partition and drop_partition.
REVOKE EXECUTE ON FUNCTION make_partition, drop_partition, new_partition, attach_partition, lock_alone, forget_emptiness FROM PUBLIC;

-- The first periods, as long as the service makes them by default.
DO $$
DECLARE t partitioned_tables;
BEGIN
    FOR t IN SELECT * FROM partitioned_tables LOOP
        PERFORM new_partition(t.table_name, t.table_name || '_rest');
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I DEFAULT', t.table_name, t.table_name || '_rest');
    END LOOP;
    FOR turn IN 1..3 LOOP
        PERFORM make_partition('notifications', interval '4 days', now()), make_partition('installation_history', interval '12 days', now()),
            make_partition('idempotency_records', interval '1 day', now());
    END LOOP;
END $$;

-- MARK: Leases

-- The tasks that one process at a time does: the housekeeping, the channels, and each event feed. free_from is the end of the holder's lease; without a
-- holder, the moment from which a process may take it.
CREATE TABLE leases (
    name text PRIMARY KEY,
    holder uuid,
    free_from timestamptz NOT NULL DEFAULT now()
);
INSERT INTO leases (name) SELECT 'events_' || log || '_' || sink FROM event_feeds UNION ALL VALUES ('housekeeping'), ('channels');

-- Below these moments no row of a kind waits, so a process that starts does not read the dead entries that an open snapshot keeps.
CREATE TABLE low_water (
    kind text PRIMARY KEY,
    at timestamptz NOT NULL,
    -- Below it wait only rows of the apps and lanes that have an older one. A process begins there if a search from `at` takes too long.
    most_at timestamptz NOT NULL
);
