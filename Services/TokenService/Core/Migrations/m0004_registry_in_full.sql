-- Apps change, and say what becomes of installations that nobody has heard of for long.
ALTER TABLE apps
    ADD COLUMN stale_after_days integer CHECK (stale_after_days BETWEEN 1 AND 3650),
    ADD COLUMN removes_stale boolean NOT NULL DEFAULT false,
    ADD COLUMN updated_at timestamptz NOT NULL DEFAULT now();

-- A key that replaces another one; both live until the older one's expires_at.
ALTER TABLE api_keys
    ADD COLUMN rotated_from text REFERENCES api_keys,
    ADD COLUMN requests_per_second integer CHECK (requests_per_second BETWEEN 1 AND 1000000);

ALTER TABLE installations
    ADD COLUMN stale_since timestamptz,
    DROP CONSTRAINT installations_signed_out_reason_check,
    ADD CONSTRAINT installations_signed_out_reason_check
        CHECK (signed_out_reason IN ('logout', 'superseded', 'deregistered', 'stale', 'erased'));
CREATE INDEX installations_by_tag ON installations USING gin (tags) WHERE tags <> '{}';

ALTER TABLE tokens
    -- APNs has accepted it in its environment: from then on the environment is a fact, not the client's word.
    ADD COLUMN proven_at timestamptz,
    DROP CONSTRAINT tokens_retired_reason_check,
    ADD CONSTRAINT tokens_retired_reason_check
        CHECK (retired_reason IN ('replaced', 'removed', 'deregistered', 'gone', 'rejected', 'stale')),
    ADD CONSTRAINT tokens_quarantine_check CHECK (quarantined_at IS NULL OR state = 'retired');
-- The same rule in another order, so that its index is also the way from a token's value to its rows: one index less to write.
ALTER TABLE tokens DROP CONSTRAINT tokens_app_id_environment_purpose_token_key;
ALTER TABLE tokens ADD CONSTRAINT tokens_once UNIQUE (app_id, token, purpose, environment);
DROP INDEX tokens_by_value;
CREATE INDEX tokens_rejected ON tokens (app_id, retired_at) WHERE retired_reason = 'rejected';
CREATE INDEX tokens_quarantined ON tokens (app_id, id) WHERE quarantined_at IS NOT NULL;

-- Room in every page, so that a refresh, which changes no indexed column, stays in its page and touches no index.
ALTER TABLE installations SET (fillfactor = 80);
ALTER TABLE tokens SET (fillfactor = 80);

-- A receipt outlives its token, which may be erased.
ALTER TABLE deliveries DROP CONSTRAINT deliveries_token_id_fkey;
CREATE INDEX deliveries_by_installation ON deliveries (installation);

-- What happened to each installation and why; only ever appended to. No reference to installations: the insert is on the path of
-- every registration, and nothing depends on a history without its installation.
CREATE TABLE installation_history (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id bigint NOT NULL,
    installation uuid NOT NULL,
    at timestamptz NOT NULL,
    event text NOT NULL CHECK (event IN ('registered', 'signed_in', 'signed_out', 'deregistered', 'token_added', 'token_moved_here',
        'token_moved_away', 'token_replaced', 'token_removed', 'token_retired', 'token_quarantined', 'token_restored',
        'environment_corrected', 'throttled', 'stale')),
    owner_epoch bigint,
    owner text,
    token_id bigint,
    token_hint text,
    environment text,
    purpose text,
    other_installation uuid,
    -- What APNs said, and since when the token was gone.
    status smallint,
    reason text,
    apns_timestamp timestamptz,
    delivery uuid
);
CREATE INDEX installation_history_by_installation ON installation_history (app_id, installation, id);

-- Finds out whether an app's sandbox is in use; sandbox tokens are few, and the production ones are found by tokens_one_active.
CREATE INDEX tokens_in_sandbox ON tokens (app_id) WHERE state = 'active' AND environment = 'sandbox';
-- A key's successor.
CREATE INDEX api_keys_by_predecessor ON api_keys (rotated_from) WHERE rotated_from IS NOT NULL;
-- Whether the token had been accepted in no environment yet when the delivery was made: so that an accepted delivery of a proven token,
-- which is nearly every one, need not look at its token.
ALTER TABLE deliveries ADD COLUMN unproven boolean NOT NULL DEFAULT false;
-- From a token to the installations that it left: who held it.
CREATE INDEX installation_history_moves ON installation_history (token_id) WHERE event = 'token_moved_away';
-- What privacy and retention search by.
CREATE INDEX notifications_by_user ON notifications (app_id, target_user, id) WHERE target_user IS NOT NULL;
CREATE INDEX notifications_by_installation ON notifications (app_id, target_installation, id) WHERE target_installation IS NOT NULL;
CREATE INDEX installation_history_by_owner ON installation_history (app_id, owner, id) WHERE owner IS NOT NULL;
CREATE INDEX idempotency_records_by_notification ON idempotency_records (notification);
CREATE INDEX token_moves_by_predecessor ON token_moves (app_id, predecessor);
CREATE INDEX tokens_retired ON tokens (retired_at, id) WHERE retired_at IS NOT NULL;

-- The times of an erased user at installations whose history and receipts are still to be removed, these and those left long ago.
-- Written with the fence, so that a call that was cut short can be repeated although the installation names the user no more; empty
-- when nobody is being erased.
CREATE TABLE erasures (
    app_id bigint NOT NULL,
    owner text NOT NULL,
    installation uuid NOT NULL,
    -- What is of an earlier or later epoch, or earlier or later in the history, belongs to whoever was there before or came afterwards.
    epochs_from bigint NOT NULL,
    epochs_below bigint NOT NULL,
    history_from bigint NOT NULL,
    history_to bigint NOT NULL,
    began_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    PRIMARY KEY (app_id, owner, installation, epochs_below)
);

-- One row: which process of the fleet does the housekeeping, or when the next round is due.
CREATE TABLE housekeeping (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    holder uuid,
    free_from timestamptz NOT NULL DEFAULT now()
);
INSERT INTO housekeeping DEFAULT VALUES;

-- What the housekeeping sweeps by.
CREATE INDEX fences_by_publishing ON fences (published_at) WHERE published_at IS NOT NULL;
CREATE INDEX token_moves_by_time ON token_moves (moved_at);
CREATE INDEX outcome_counts_by_minute ON outcome_counts (minute);
CREATE INDEX tokens_by_quarantine ON tokens (quarantined_at, id) WHERE quarantined_at IS NOT NULL;
