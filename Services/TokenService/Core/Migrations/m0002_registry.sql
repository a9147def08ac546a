-- One install of an app on one device. It has one owner or none: a column, so it cannot have two.
-- A deregistered installation stays as an empty shell, because its epoch must never start again below a fence.
CREATE TABLE installations (
    app_id bigint NOT NULL REFERENCES apps,
    id uuid NOT NULL,
    owner text CHECK (octet_length(owner) BETWEEN 1 AND 256),
    owner_epoch bigint NOT NULL DEFAULT 1 CHECK (owner_epoch >= 1),
    signed_out_reason text CHECK (signed_out_reason IN ('logout', 'superseded', 'deregistered')),
    throttled_until timestamptz,
    locale text,
    time_zone text,
    app_version text,
    os_version text,
    device_model text,
    tags text[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    registered_at timestamptz NOT NULL,
    deregistered_at timestamptz,
    PRIMARY KEY (app_id, id),
    CHECK (deregistered_at IS NULL OR owner IS NULL)
);

CREATE INDEX installations_by_owner ON installations (app_id, owner, id) WHERE owner IS NOT NULL;

-- A token is one row for ever and that row names one installation: it cannot belong to two.
CREATE TABLE tokens (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id bigint NOT NULL,
    environment text NOT NULL CHECK (environment IN ('production', 'sandbox')),
    purpose text NOT NULL CHECK (purpose IN ('alert', 'voip', 'pushtotalk', 'location', 'complication', 'fileprovider',
        'liveactivity', 'controls', 'widgets', 'mdm')),
    token bytea NOT NULL CHECK (octet_length(token) BETWEEN 1 AND 256),
    installation uuid NOT NULL,
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'retired')),
    registered_at timestamptz NOT NULL,
    retired_at timestamptz,
    retired_reason text CHECK (retired_reason IN ('replaced', 'removed', 'deregistered', 'gone', 'rejected')),
    -- Set where the brake finds, afterwards, that a retirement was our own mistake in the making.
    quarantined_at timestamptz,
    FOREIGN KEY (app_id, installation) REFERENCES installations,
    UNIQUE (app_id, environment, purpose, token),
    CHECK ((state = 'retired') = (retired_at IS NOT NULL) AND (state = 'retired') = (retired_reason IS NOT NULL))
);

-- One live token per purpose and environment of an installation. Also the path from an installation to its tokens.
CREATE UNIQUE INDEX tokens_one_active ON tokens (app_id, installation, purpose, environment) WHERE state = 'active';
CREATE INDEX tokens_by_installation ON tokens (app_id, installation);
CREATE INDEX tokens_by_value ON tokens (app_id, token);

-- Outbox of the control stream: written with the change that needs it, published before the answer or by the relay.
CREATE TABLE fences (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id bigint NOT NULL,
    installation uuid NOT NULL,
    epochs_below bigint NOT NULL,
    created_at timestamptz NOT NULL,
    published_at timestamptz,
    FOREIGN KEY (app_id, installation) REFERENCES installations
);

CREATE INDEX fences_by_installation ON fences (app_id, installation, id);

-- A token that moved between two installations of the same owner: the first is not fenced then, because what is queued
-- for it is still right. It becomes wrong when the second one's owner changes, so that fence must reach back.
CREATE TABLE token_moves (
    app_id bigint NOT NULL,
    predecessor uuid NOT NULL,
    successor uuid NOT NULL,
    moved_at timestamptz NOT NULL,
    PRIMARY KEY (app_id, successor, predecessor),
    FOREIGN KEY (app_id, predecessor) REFERENCES installations,
    FOREIGN KEY (app_id, successor) REFERENCES installations
);
