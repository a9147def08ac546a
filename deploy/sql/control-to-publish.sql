-- Waits for ten seconds. Then it prints how many of the fences, cancellations and holds that were there before the control stream still does
-- not have. While the services have traffic, some newer ones are always on their way.
SELECT now() AS began, pg_sleep(10) \gset
SELECT (SELECT count(*) FROM open_fences WHERE created_at < :'began')
    + (SELECT count(*) FROM cancellations WHERE published_at IS NULL AND at < :'began')
    + (SELECT count(*) FROM holds WHERE published_at IS NULL AND lifted_at IS NULL AND ends_at > now() AND set_at < :'began') AS to_publish;
