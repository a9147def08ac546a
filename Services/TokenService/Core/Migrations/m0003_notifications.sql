-- One accepted send request. The row is the outbox: while published_at is NULL, somebody still has to publish it.
CREATE TABLE notifications (
    id uuid PRIMARY KEY,
    app_id bigint NOT NULL REFERENCES apps,
    target_user text,
    target_installation uuid,
    lane text NOT NULL CHECK (lane IN ('now', 'soon', 'bulk')),
    push_type text NOT NULL,
    topic text NOT NULL,
    priority smallint NOT NULL CHECK (priority IN (1, 5, 10)),
    collapse_id text CHECK (octet_length(collapse_id) <= 64),
    apns_expiration bigint,
    on_unknown text NOT NULL CHECK (on_unknown IN ('resend', 'resend_once', 'drop')),
    payload bytea NOT NULL CHECK (octet_length(payload) <= 5120),
    traceparent text NOT NULL,
    accepted_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    state text NOT NULL
        CHECK (state IN ('accepted', 'scheduled', 'expanding', 'sending', 'completed', 'cancelled', 'expired', 'no_targets')),
    total integer NOT NULL CHECK (total >= 0),
    pending integer NOT NULL CHECK (pending BETWEEN 0 AND total),
    -- Until then the process that holds the lease publishes; afterwards anyone may.
    lease_until timestamptz NOT NULL,
    published_at timestamptz,
    completed_at timestamptz,
    CHECK (num_nonnulls(target_user, target_installation) = 1)
);

CREATE INDEX notifications_unpublished
    ON notifications ((CASE lane WHEN 'now' THEN 0 WHEN 'soon' THEN 1 ELSE 2 END), accepted_at) WHERE published_at IS NULL;

-- One notification x one token: the unit of outcome. Class is NULL until the outcome is final.
CREATE TABLE deliveries (
    id uuid PRIMARY KEY,
    notification uuid NOT NULL REFERENCES notifications ON DELETE CASCADE,
    token_id bigint NOT NULL REFERENCES tokens,
    installation uuid NOT NULL,
    owner_epoch bigint NOT NULL,
    environment text NOT NULL CHECK (environment IN ('production', 'sandbox')),
    class text CHECK (class IN ('accepted', 'token_gone', 'token_rejected', 'throttled', 'rejected', 'misconfigured', 'expired',
        'fenced', 'held', 'cancelled', 'failed', 'unknown')),
    status smallint,
    reason text,
    attempts integer NOT NULL DEFAULT 0,
    -- The last attempt that was not the end.
    last_class text,
    last_status smallint,
    last_reason text,
    last_at timestamptz,
    retry_at timestamptz,
    updated_at timestamptz NOT NULL,
    UNIQUE (notification, token_id)
);

-- Derived, so that a delivery has one id however often it is expanded: the first 16 bytes of SHA-256 over both ids,
-- marked as a UUID of version 8 (RFC 9562 section 5.8). It is the apns-id.
CREATE FUNCTION delivery_id(notification uuid, token_id bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (
    SELECT encode(
        set_byte(set_byte(digest, 6, get_byte(digest, 6) & 15 | 128), 8, get_byte(digest, 8) & 63 | 128), 'hex')::uuid
    FROM (SELECT substring(sha256(uuid_send(notification) || int8send(token_id)) FROM 1 FOR 16)) AS hash (digest)
);

-- One Idempotency-Key, one notification: whoever inserts second waits for the first and then finds its answer.
CREATE TABLE idempotency_records (
    app_id bigint NOT NULL REFERENCES apps,
    api_key_id text NOT NULL REFERENCES api_keys,
    key text NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    notification uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (app_id, api_key_id, key)
);

CREATE INDEX idempotency_records_by_expiry ON idempotency_records (expires_at);

-- Final outcomes per app and minute: what the brake judges by, without counting deliveries.
CREATE TABLE outcome_counts (
    app_id bigint NOT NULL REFERENCES apps,
    minute timestamptz NOT NULL,
    class text NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (app_id, minute, class)
);
