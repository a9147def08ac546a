-- "Stop what matches this", set and lifted by an operator. A row is never deleted: it says who, when and why.
CREATE TABLE holds (
    id uuid PRIMARY KEY,
    -- NULL: of every app.
    app_id bigint REFERENCES apps,
    -- What is not named is not limited.
    lane text CHECK (lane IN ('now', 'soon', 'bulk')),
    notification uuid,
    reason text NOT NULL CHECK (octet_length(reason) BETWEEN 1 AND 500),
    set_at timestamptz NOT NULL,
    -- The id of an API key, as lifted_by.
    set_by text NOT NULL,
    ends_at timestamptz NOT NULL DEFAULT 'infinity',
    lifted_at timestamptz,
    lifted_by text,
    -- When the control stream was last told that it is in force, and that it is lifted.
    told_at timestamptz,
    lift_told_at timestamptz,
    -- It is lifted, and nothing waits in the outbox because of it any more.
    released_at timestamptz,
    CHECK (num_nonnulls(lane, notification) <= 1),
    CHECK (notification IS NULL OR app_id IS NOT NULL),
    CHECK ((lifted_at IS NULL) = (lifted_by IS NULL))
);

CREATE INDEX holds_in_force ON holds (ends_at) WHERE lifted_at IS NULL;
CREATE INDEX holds_being_lifted ON holds (lifted_at) WHERE lifted_at IS NOT NULL AND (lift_told_at IS NULL OR released_at IS NULL);
CREATE INDEX holds_by_app ON holds (app_id, id);

-- What is due and was put aside because of a hold. Its lease lies at the hold's end or its own expiry, whichever is first, so that whoever
-- looks for work does not meet it; lifting the hold ends the lease.
ALTER TABLE notifications ADD COLUMN held_by uuid;
ALTER TABLE chunks ADD COLUMN held_by uuid;

CREATE INDEX notifications_held ON notifications (held_by, id) WHERE held_by IS NOT NULL AND published_at IS NULL;
CREATE INDEX chunks_held ON chunks (held_by, notification, number) WHERE held_by IS NOT NULL AND published_at IS NULL;
