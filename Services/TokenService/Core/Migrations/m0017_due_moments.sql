-- When something is due on one installation: at its local time by the installation's zone, and not within its user's quiet hours, which are
-- NULL where there are none. NULL: at once. In the past where the walk comes late, so that a lifetime counts from where it should; what fell into
-- quiet hours counts from their end. A walk that comes late within quiet hours waits for their end, but not for what would be over by then.
CREATE FUNCTION due_at(local_time timestamp, lifetime_ms bigint, accepted_at timestamptz, begins_at time, ends_at time, zone text)
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (
    SELECT CASE
        WHEN ends_at IS NULL THEN local
        WHEN local IS NULL THEN nullif(next, now())
        WHEN next > now() AND (usual + lifetime_ms * interval '1 millisecond' > next) IS NOT FALSE THEN next
        ELSE usual END
    FROM (SELECT local_time AT TIME ZONE zone AS local) AS here,
        LATERAL (
            SELECT after_quiet_hours(greatest(now(), local), begins_at, ends_at, zone) AS next,
                after_quiet_hours(greatest(accepted_at, local), begins_at, ends_at, zone) AS usual
        ) AS moments
);
