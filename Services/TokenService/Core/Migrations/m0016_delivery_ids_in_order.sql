-- A delivery's id was made with SHA-256, which took an eighth of the database's time for an acceptance and put every delivery elsewhere in
-- its index. From the next notification on it has the upper half of its notification's, a version 7 (RFC 9562 section 5.7): those made
-- together lie together. The lower half is PostgreSQL's 64-bit hash of both ids, under the variant's two bits; a notification with a
-- hundred of them has two alike once in 10^15, and that is refused by the primary key. What was accepted before keeps its ids, whenever they
-- are asked for again. Not STRICT, which would keep a function with a CASE from becoming part of the statement that calls it.
DO $$ BEGIN
    EXECUTE format($f$
        CREATE OR REPLACE FUNCTION delivery_id(notification uuid, token_id bigint) RETURNS uuid
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN CASE WHEN notification > %L::uuid THEN encode(
            substring(uuid_send(notification) FROM 1 FOR 8)
                || int8send(uuid_hash_extended(notification, token_id) & 4611686018427387903 | (-9223372036854775807 - 1)), 'hex')::uuid
        ELSE encode(
            set_bit(set_bit(set_bit(set_bit(set_bit(set_bit(
                substring(sha256(uuid_send(notification) || int8send(token_id)) FROM 1 FOR 16),
                55, 1), 54, 0), 53, 0), 52, 0), 71, 1), 70, 0), 'hex')::uuid END
        $f$, coalesce((SELECT id FROM notifications ORDER BY id DESC LIMIT 1), '00000000-0000-0000-0000-000000000000'));
END $$;
