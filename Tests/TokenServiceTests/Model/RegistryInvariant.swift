import Postgres
import PushModel

/// What is promised whatever happened in whatever order, asked of the tables themselves.
enum RegistryInvariant {
    /// The names of those that do not hold in one app: 3, 4, 5 and 7 as far as they show in one moment's rows; the model holds the rest.
    ///
    /// - Parameters:
    ///   - open: The app's deliveries without an outcome.
    ///   - installations: Theirs.
    static func violated(in app: Int64, _ open: [OpenDelivery], _ installations: [PushID]) -> PostgresQuery {
        let users = open.map { RegistryModel.users[$0.user] }
        return """
            SELECT 'one token row belongs to one installation (5)' AS name WHERE EXISTS (
                SELECT FROM tokens WHERE app_id = \(app) GROUP BY environment, purpose, token HAVING count(*) > 1)
            UNION ALL SELECT 'one active token in one place (rule 3)' WHERE EXISTS (
                SELECT FROM tokens WHERE app_id = \(app) AND state = 'active' GROUP BY installation, purpose, environment
                    HAVING count(*) > 1)
            UNION ALL SELECT 'the single policy leaves a user one installation (rule 5)' WHERE EXISTS (
                SELECT FROM installations i JOIN apps a ON a.id = i.app_id
                WHERE i.app_id = \(app) AND a.device_policy = 'single' AND owner IS NOT NULL GROUP BY owner HAVING count(*) > 1)
            UNION ALL SELECT 'what was deregistered holds nothing (rule 7)' WHERE EXISTS (
                SELECT FROM installations i WHERE i.app_id = \(app) AND i.deregistered_at IS NOT NULL AND (i.owner IS NOT NULL
                    OR EXISTS (SELECT FROM tokens t WHERE t.app_id = \(app) AND t.installation = i.id AND t.state = 'active')))
            UNION ALL SELECT 'an epoch is what its fences say (rule 4)' WHERE EXISTS (
                SELECT FROM installations i WHERE app_id = \(app) AND owner_epoch
                    <> coalesce((SELECT max(epochs_below) FROM fences f WHERE f.app_id = \(app) AND f.installation = i.id), 1))
            -- The installation that has the token now is signed in as another user than the notification was for, and no fence covers the
            -- delivery.
            UNION ALL SELECT 'nothing queued for a previous owner passes its fence (3)' WHERE EXISTS (
                SELECT FROM unnest(\(open.map(\.row))::bigint[], \(installations)::uuid[], \(open.map(\.epoch))::bigint[], \(users)::text[])
                    AS d (token, installation, epoch, target)
                JOIN tokens t ON t.id = d.token JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation
                WHERE t.app_id = \(app) AND i.owner IS DISTINCT FROM d.target AND NOT EXISTS (
                    SELECT FROM fences f WHERE f.app_id = \(app) AND f.installation = d.installation AND f.epochs_below > d.epoch))
            UNION ALL SELECT 'what was erased is an empty shell' WHERE EXISTS (
                SELECT FROM installations i WHERE app_id = \(app) AND deregistered_at IS NOT NULL AND signed_out_reason = 'erased' AND (
                    owner IS NOT NULL OR locale IS NOT NULL OR EXISTS (SELECT FROM tokens t WHERE t.app_id = \(app)
                        AND t.installation = i.id)))
            UNION ALL SELECT 'an erasure that was answered is complete' WHERE EXISTS (SELECT FROM erasures WHERE app_id = \(app))
            """
    }
}
