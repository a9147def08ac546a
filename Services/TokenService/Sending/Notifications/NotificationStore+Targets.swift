import Postgres
import PushModel
import TokenServiceApps

extension NotificationStore {
    /// Entries of a list that one statement writes: far from the statement timeout, and 1.3 MB of the longest names.
    private static let targetsOfStatement = 5000

    /// The members of a list, as they are now: with the owners' epochs, and tokens with their installations. It leaves out a token without
    /// an installation. Such a token reaches no device, and an erasure of its user could not find it: no row would record whose it was.
    static func insertTargets(of item: Item) -> [PostgresQuery] {
        let (id, app, request) = (item.notification.id, item.app.id, item.notification.request)
        switch request.target {
        case .users(let users):
            return users.parts(of: targetsOfStatement).map { before, part in
                """
                INSERT INTO targets (notification, place, app_id, owner)
                SELECT \(id), place + \(before), \(app), owner FROM unnest(\(part)::text[]) WITH ORDINALITY AS named (owner, place)
                """
            }
        case .installations(let installations):
            return installations.parts(of: targetsOfStatement).map { before, part in
                """
                INSERT INTO targets (notification, place, app_id, installation, owner_epoch)
                SELECT \(id), place + \(before), \(app), named.id, i.owner_epoch
                FROM unnest(\(part)::uuid[]) WITH ORDINALITY AS named (id, place)
                LEFT JOIN installations i ON i.app_id = \(app) AND i.id = named.id
                """
            }
        case .tokens(let tokens):
            return [
                """
                INSERT INTO targets (notification, place, app_id, installation, owner_epoch, token)
                SELECT \(id), place, \(app), held.id, held.owner_epoch, named.token
                FROM unnest(\(tokens.map(\.bytes))::bytea[]) WITH ORDINALITY AS named (token, place) CROSS JOIN LATERAL (
                    SELECT i.owner_epoch, i.id FROM tokens t JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation
                    -- IS TRUE: by the token, of all indexes that begin with the app.
                    WHERE t.app_id = \(app) AND t.token = named.token
                        AND (t.purpose = \(request.purpose) AND t.state = 'active') IS TRUE
                    ORDER BY t.registered_at DESC LIMIT 1
                ) AS held
                """
            ]
        case .user, .installation, .tags, .all, .channel: return []
        }
    }
}

extension Array {
    /// At most `size` at a time, each part with the number of elements before it.
    fileprivate func parts(of size: Int) -> [(before: Int, part: [Element])] {
        stride(from: 0, to: count, by: size).map { ($0, Array(self[$0..<Swift.min($0 + size, count)])) }
    }
}
