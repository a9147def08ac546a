-- Which state changes of an app go to the exchange of outcomes: notifications, installations, both or none.
ALTER TABLE apps ADD COLUMN event_stream text[] NOT NULL DEFAULT '{}'
    CHECK (cardinality(event_stream) <= 2 AND event_stream <@ ARRAY['notifications', 'installations']);

-- Where events go by HTTP. Secrets are what deliveries are signed with, so they are stored as they are.
CREATE TABLE webhooks (
    id uuid PRIMARY KEY,
    app_id bigint NOT NULL REFERENCES apps,
    url text NOT NULL CHECK (octet_length(url) BETWEEN 1 AND 2048),
    events text[] NOT NULL CHECK (cardinality(events) BETWEEN 1 AND 50),
    description text CHECK (octet_length(description) BETWEEN 1 AND 200),
    secret bytea NOT NULL CHECK (octet_length(secret) BETWEEN 24 AND 64),
    previous_secret bytea,
    previous_until timestamptz,
    -- NULL while it is enabled.
    disabled_reason text CHECK (disabled_reason IN ('by_request', 'gone', 'failing', 'backlog_full')),
    disabled_at timestamptz,
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

-- One event for one webhook. While it is pending, due_at is the next attempt, or the end of the lease of whoever makes one.
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

-- State changes of notifications, in the order of their commits as far as a reader cares: read behind the oldest open transaction.
-- Without references: the insert is in the statement that changes the state.
CREATE TABLE notification_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id bigint NOT NULL,
    notification uuid NOT NULL,
    event text NOT NULL,
    at timestamptz NOT NULL
);

-- Whether anybody wanted to be told of its state changes when it was accepted.
ALTER TABLE notifications ADD COLUMN is_told boolean NOT NULL DEFAULT false;

-- The same of the app, kept by whoever changes its event_stream or its webhooks: an acceptance asks no further.
ALTER TABLE apps ADD COLUMN tells_notifications boolean NOT NULL DEFAULT false;

-- A trigger, so that no statement that changes a state can forget to tell it; where nobody wants to be told it never runs.
CREATE FUNCTION tell_notification_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO notification_events (app_id, notification, event, at)
    VALUES (NEW.app_id, NEW.id,
        CASE WHEN NEW.state = 'cancelled' AND NEW.cancel_reason = 'superseded' THEN 'superseded' ELSE NEW.state END, now());
    RETURN NULL;
END $$;
CREATE TRIGGER notifications_told_new AFTER INSERT ON notifications
    FOR EACH ROW WHEN (NEW.is_told) EXECUTE FUNCTION tell_notification_state();
CREATE TRIGGER notifications_told_change AFTER UPDATE ON notifications
    FOR EACH ROW WHEN (NEW.is_told AND NEW.state <> OLD.state) EXECUTE FUNCTION tell_notification_state();

-- How far each log was read for each sink, and which process reads it.
CREATE TABLE event_feeds (
    log text NOT NULL CHECK (log IN ('notifications', 'installations')),
    sink text NOT NULL CHECK (sink IN ('broker', 'webhooks')),
    position bigint NOT NULL,
    holder uuid,
    lease_until timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (log, sink)
);
-- What happened before there were feeds is not told.
INSERT INTO event_feeds (log, sink, position)
SELECT log, sink, CASE log WHEN 'installations' THEN (SELECT coalesce(max(id), 0) FROM installation_history) ELSE 0 END
FROM (VALUES ('notifications'), ('installations')) AS logs (log), (VALUES ('broker'), ('webhooks')) AS sinks (sink);
