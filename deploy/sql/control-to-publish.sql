-- Prints how many fences, cancellations and holds the control stream does not have yet.
SELECT (SELECT count(*) FROM open_fences) + (SELECT count(*) FROM cancellations WHERE published_at IS NULL)
    + (SELECT count(*) FROM holds WHERE published_at IS NULL AND lifted_at IS NULL AND ends_at > now()) AS to_publish;
