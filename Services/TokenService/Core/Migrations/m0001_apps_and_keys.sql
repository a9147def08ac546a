-- Apps are tenants: every other table names the app it belongs to.
CREATE TABLE apps (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug text NOT NULL UNIQUE CHECK (slug ~ '^[a-z][a-z0-9-]{0,63}$'),
    bundle_id text NOT NULL CHECK (octet_length(bundle_id) BETWEEN 1 AND 155),
    device_policy text NOT NULL CHECK (device_policy IN ('multi', 'single')),
    environments text[] NOT NULL
        CHECK (cardinality(environments) BETWEEN 1 AND 2 AND environments <@ ARRAY['production', 'sandbox']),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Only a digest of a key's secret is stored; the key itself is shown once, when it is made.
CREATE TABLE api_keys (
    -- The middle part of the key's text; not secret.
    id text PRIMARY KEY CHECK (id ~ '^[0-9a-f]{16}$'),
    secret_sha256 bytea NOT NULL CHECK (octet_length(secret_sha256) = 32),
    -- NULL: bound to no app, valid for all.
    app_id bigint REFERENCES apps,
    name text NOT NULL,
    scopes text[] NOT NULL
        CHECK (cardinality(scopes) >= 1 AND scopes <@ ARRAY['devices', 'send', 'read', 'admin']),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
);
