-- For a control stream that lost its entries: the relays publish the fences, cancellations and holds again that a dispatcher may need. A
-- dispatcher remembers for 73 hours what it has read. It may be repeated. docs/runbook/jobs-queue-refuses.md says when to run it.
\set ON_ERROR_STOP on
UPDATE fences SET published_at = NULL WHERE published_at IS NOT NULL AND created_at > now() - interval '73 hours';
-- One that no dispatcher needed has the same moment in both columns.
UPDATE cancellations SET published_at = NULL WHERE published_at > at AND at > now() - interval '73 hours';
UPDATE holds SET published_at = NULL WHERE lifted_at IS NULL AND ends_at > now();
-- The relays look for older rows again: a token service that starts at once, one that runs within a minute.
UPDATE low_water SET at = least(at, now() - interval '74 hours') WHERE kind IN ('fences', 'unpublished');
