import Postgres

/// What is promised whatever happened in whatever order (DESIGN.md section 8), asked of the tables themselves.
enum RegistryInvariant {
    /// The names of those that do not hold in one app (`$1`): 3, 4, 5 and 7 as far as they show in one moment's rows; the model holds the rest.
    static let violated: PostgresStatement = """
        SELECT 'one token row belongs to one installation (5)' WHERE EXISTS (
            SELECT FROM tokens WHERE app_id = $1 GROUP BY environment, purpose, token HAVING count(*) > 1)
        UNION ALL SELECT 'one active token in one place (rule 3)' WHERE EXISTS (
            SELECT FROM tokens WHERE app_id = $1 AND state = 'active' GROUP BY installation, purpose, environment HAVING count(*) > 1)
        UNION ALL SELECT 'the single policy leaves a user one installation (rule 5)' WHERE EXISTS (
            SELECT FROM installations i JOIN apps a ON a.id = i.app_id
            WHERE i.app_id = $1 AND a.device_policy = 'single' AND owner IS NOT NULL GROUP BY owner HAVING count(*) > 1)
        UNION ALL SELECT 'what was deregistered holds nothing (rule 7)' WHERE EXISTS (
            SELECT FROM installations i WHERE i.app_id = $1 AND i.deregistered_at IS NOT NULL AND (i.owner IS NOT NULL
                OR EXISTS (SELECT FROM tokens t WHERE t.app_id = $1 AND t.installation = i.id AND t.state = 'active')))
        UNION ALL SELECT 'an epoch is what its fences say (rule 4)' WHERE EXISTS (
            SELECT FROM installations i WHERE app_id = $1 AND owner_epoch
                <> coalesce((SELECT max(epochs_below) FROM fences f WHERE f.app_id = $1 AND f.installation = i.id), 1))
        -- Whoever has the token now is signed in as somebody else than the notification was for, and no fence covers the delivery.
        UNION ALL SELECT 'nothing queued for a previous owner passes its fence (3)' WHERE EXISTS (
            SELECT FROM deliveries d JOIN notifications n ON n.id = d.notification JOIN tokens t ON t.id = d.token_id
                JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation
            WHERE n.app_id = $1 AND d.class IS NULL AND i.owner IS DISTINCT FROM n.target_user AND NOT EXISTS (
                SELECT FROM fences f WHERE f.app_id = $1 AND f.installation = d.installation AND f.epochs_below > d.owner_epoch))
        UNION ALL SELECT 'what was erased is an empty shell' WHERE EXISTS (
            SELECT FROM installations i WHERE app_id = $1 AND deregistered_at IS NOT NULL AND signed_out_reason = 'erased' AND (
                owner IS NOT NULL OR locale IS NOT NULL OR EXISTS (SELECT FROM tokens t WHERE t.app_id = $1 AND t.installation = i.id)))
        UNION ALL SELECT 'an erasure that was answered is complete' WHERE EXISTS (SELECT FROM erasures WHERE app_id = $1)
        """
}
