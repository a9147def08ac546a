-- Audiences are walked in the order in which installations were made, which is about the order in which their rows lie, instead of that of
-- their ids, which are random: by them each device of a million was several cache misses. A refresh moves a row and leaves this alone.
-- Rewrites both tables, in one order, and makes their indexes anew: see deploy/README.md, "Roll out, roll back".
SET LOCAL work_mem = '256MB';
SET LOCAL maintenance_work_mem = '256MB';
LOCK TABLE installations, tokens, notifications IN ACCESS EXCLUSIVE MODE;

ALTER TABLE installations ADD COLUMN ordinal bigint NOT NULL GENERATED ALWAYS AS IDENTITY;
-- What walks go by, and what tokens refer to.
CREATE UNIQUE INDEX installations_in_order ON installations (app_id, ordinal, id);

ALTER TABLE tokens ADD COLUMN ordinal bigint;
CREATE UNLOGGED TABLE tokens_in_order AS
    SELECT t.id, t.app_id, t.environment, t.purpose, t.token, t.installation, t.state, t.registered_at, t.retired_at, t.retired_reason,
        t.quarantined_at, t.proven_at, i.ordinal
    FROM tokens t JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation;
-- Rows first, indexes and constraints afterwards: one by one they take twenty times as long.
ALTER TABLE tokens DROP CONSTRAINT tokens_app_id_installation_fkey, DROP CONSTRAINT tokens_pkey, DROP CONSTRAINT tokens_once;
DROP INDEX tokens_one_active, tokens_by_installation, tokens_rejected, tokens_quarantined, tokens_in_sandbox, tokens_retired,
    tokens_by_quarantine;
TRUNCATE tokens;
INSERT INTO tokens (id, app_id, environment, purpose, token, installation, state, registered_at, retired_at, retired_reason,
    quarantined_at, proven_at, ordinal)
OVERRIDING SYSTEM VALUE SELECT * FROM tokens_in_order ORDER BY ordinal, id;
DROP TABLE tokens_in_order;

ALTER TABLE tokens ADD PRIMARY KEY (id), ADD CONSTRAINT tokens_once UNIQUE (app_id, token, purpose, environment);
-- One live token per purpose and environment of an installation, and everybody's tokens in the order of the walk. New entries come at its end.
CREATE UNIQUE INDEX tokens_one_active ON tokens (app_id, ordinal, purpose, environment) WHERE state = 'active';
CREATE INDEX tokens_by_installation ON tokens (app_id, installation);
CREATE INDEX tokens_rejected ON tokens (app_id, retired_at) WHERE retired_reason = 'rejected';
CREATE INDEX tokens_quarantined ON tokens (app_id, id) WHERE quarantined_at IS NOT NULL;
CREATE INDEX tokens_in_sandbox ON tokens (app_id) WHERE state = 'active' AND environment = 'sandbox';
CREATE INDEX tokens_retired ON tokens (retired_at, id) WHERE retired_at IS NOT NULL;
CREATE INDEX tokens_by_quarantine ON tokens (quarantined_at, id) WHERE quarantined_at IS NOT NULL;
-- A token's ordinal is its installation's, or the row is refused.
ALTER TABLE tokens ADD CONSTRAINT tokens_app_id_installation_fkey
    FOREIGN KEY (app_id, ordinal, installation) REFERENCES installations (app_id, ordinal, id);
ANALYZE installations, tokens;

-- Programs from before this column name the installation alone, and so may people: then the ordinal is looked up, afterwards, because the
-- installation may be made in the same statement. 0 is nobody's, and refused. So no row is without an ordinal for longer than a statement;
-- NOT NULL would refuse it at once. A trigger before the change would lock each row a second time, refreshes too. These names come before
-- that of the foreign key's trigger, which then looks at the row as they leave it.
CREATE FUNCTION tokens_follow_installation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tokens SET ordinal = coalesce((SELECT i.ordinal FROM installations i WHERE i.app_id = NEW.app_id AND i.id = NEW.installation), 0)
    WHERE id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER "A new token follows its installation" AFTER INSERT ON tokens FOR EACH ROW
    WHEN (NEW.ordinal IS NULL) EXECUTE FUNCTION tokens_follow_installation();
CREATE TRIGGER "A token follows its installation" AFTER UPDATE OF installation, ordinal ON tokens FOR EACH ROW
    WHEN (NEW.ordinal IS NULL OR NEW.installation <> OLD.installation AND NEW.ordinal = OLD.ordinal)
    EXECUTE FUNCTION tokens_follow_installation();

-- A walk's checkpoint. One that was under way goes on in the new order, and passes over what it had looked at in the old one: everybody up to
-- walked_to. That stays where it is from then on, so that a program of before cannot take the walk up again: it would begin anew.
ALTER TABLE notifications
    ADD COLUMN walked_ordinal bigint NOT NULL DEFAULT 0,
    ADD COLUMN walked_before uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    ADD CONSTRAINT notifications_walk_in_one_order CHECK (walked_ordinal = 0 OR walked_to = walked_before) NOT VALID;
