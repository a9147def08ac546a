-- What each dispatcher said last of its credentials, an app of each in a row.
CREATE TABLE credential_reports (
    source text NOT NULL,
    app text NOT NULL,
    environment text NOT NULL,
    kind text NOT NULL,
    credential text NOT NULL,
    refusal text,
    reported_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, app, environment, kind, credential)
);

CREATE INDEX credential_reports_by_app ON credential_reports (app, environment);
