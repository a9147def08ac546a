-- Prepares a database that was restored to an earlier moment, before a token service starts on it. docs/guides/backup.md has the steps
-- around it: the queues of jobs and of outcomes are empty, and the control stream is deleted.
--
-- Prints app and id of each notification that was due: since the backup it may have been sent.
\set ON_ERROR_STOP on
\set QUIET on
\pset format unaligned
\pset fieldsep ' '
\pset tuples_only on
BEGIN;
\ir publish-control-again.sql

-- Deliveries that a replay had reopened: their receipts say that they have no outcome, and the bits in their jobs say that they have one.
-- From now on the bits decide again, so that the jobs are published.
WITH reopened AS (
    UPDATE receipts r SET is_replayed = false FROM notifications n
    WHERE n.id = r.notification AND n.pending > 0 AND r.is_replayed AND r.class IS NULL
    RETURNING r.notification, r.number, r."position"
), masks AS (
    SELECT notification, number, bit_or(set_bit(B'0'::bit(100), "position", 1)) AS mask FROM reopened GROUP BY notification, number
)
UPDATE jobs j SET ended = j.ended & ~m.mask FROM masks m WHERE j.notification = m.notification AND j.number = m.number;

-- The message of each of these jobs, or its outcome, is lost. They are published again, to devices that are found anew.
UPDATE jobs j SET published_at = NULL, free_from = now() FROM notifications n
WHERE n.id = j.notification AND n.pending > 0 AND j.published_at IS NOT NULL AND bit_count(j.ended) < octet_length(j.members) / 8;

-- Over every app, until an operator lifts it: nothing is sent a second time without a decision. No API key has this id.
INSERT INTO holds (id, reason, set_at, set_by)
VALUES (new_id(), 'restored from a backup: notifications that were due may be sent twice', now(), '0000000000000000');

SELECT a.slug, n.id FROM notifications n JOIN apps a ON a.id = n.app_id
WHERE n.state IN ('accepted', 'scheduled', 'expanding', 'sending') AND (
    EXISTS (SELECT FROM jobs j WHERE j.notification = n.id AND j.published_at IS NULL AND j.due_at <= now())
    OR EXISTS (SELECT FROM fan_outs f WHERE f.notification = n.id AND f.free_from IS NOT NULL AND f.due_at <= now()))
ORDER BY n.id;
COMMIT;
