import Postgres
import PushModel
import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry

extension NotificationRequest {
    /// It says which activity it updates by its user and its attributes type.
    var namesActivityByType: Bool { if case .type = activity?.subject { true } else { false } }

    /// Makes the request go to the only activity of its user and type that is not over.
    /// - Throws: ``APIError`` 409 if there is none, or more than one.
    func namingActivity(of app: App, in session: PostgresSession) throws -> NotificationRequest {
        guard namesActivityByType else { return self }
        return try Self.namingActivities([self], of: app, in: session)[0].get()
    }

    /// Makes each of several requests go to its only activity, in their order. One statement finds the activities of all of them.
    static func namingActivities(
        _ requests: [NotificationRequest], of app: App, in session: PostgresSession
    ) throws -> [Result<NotificationRequest, any Error>] {
        let pairs = Set(requests.compactMap(\.userAndType))
        let running = try pairs.isEmpty ? [:] : ActivityReading(session: session, app: app).running(pairs)
        return requests.map { request in
            guard let pair = request.userAndType else { return .success(request) }
            guard let ids = running[pair], ids.count == 1 else { return .failure(APIError.activityNotSingle(running[pair] ?? [])) }
            var named = request
            named.purpose = .activity(id: ids[0])
            named.activity?.subject = .activity(ids[0])
            return .success(named)
        }
    }

    /// Compared by bytes (``ExactText``).
    fileprivate struct UserAndType: Hashable {
        let user: [UInt8]
        let type: [UInt8]
    }

    private var userAndType: UserAndType? {
        guard case .user(let user) = target, case .type(let type) = activity?.subject else { return nil }
        return UserAndType(user: Array(user.utf8), type: Array(type.utf8))
    }
}

extension ActivityReading {
    /// The first few ids of each user and type, in order. Without an activity a pair is not in it. A start that no device has reported for
    /// an hour has probably failed: its activity counts only if there is no other.
    fileprivate func running(_ pairs: Set<NotificationRequest.UserAndType>) throws -> [NotificationRequest.UserAndType: [String]] {
        let pairs = Array(pairs)
        let (users, types) = (
            pairs.map { String(decoding: $0.user, as: UTF8.self) }, pairs.map { String(decoding: $0.type, as: UTF8.self) }
        )
        let rows = try session.execute(
            """
            SELECT e.index, r.id, r.is_silent
            FROM unnest(\(Array(pairs.indices))::bigint[], \(users)::text[], \(types)::text[]) AS e (index, owner, type)
            CROSS JOIN LATERAL (
                SELECT id, state = 'starting' AND started_at < now() - interval '1 hour' AS is_silent FROM activity_records
                WHERE app_id = \(app.id) AND owned_by = activity_owner(e.owner, NULL) AND attributes_type = e.type AND ends_at > now()
                ORDER BY is_silent, id LIMIT 10
            ) AS r ORDER BY e.index, r.is_silent, r.id
            """)
        var (found, silent): ([NotificationRequest.UserAndType: [String]], [NotificationRequest.UserAndType: [String]]) = ([:], [:])
        for row in rows {
            let index: Int = try row["index"]
            if try row["is_silent"] {
                silent[pairs[index], default: []].append(try row["id"])
            } else {
                found[pairs[index], default: []].append(try row["id"])
            }
        }
        return found.merging(silent) { counting, _ in counting }
    }
}

extension APIError {
    /// - Parameter ids: The ids of the user's activities of that type.
    fileprivate static func activityNotSingle(_ ids: [String]) -> APIError {
        APIError(
            .activityNotSingle,
            ids.isEmpty
                ? "the user has no Live Activity of this type that is not over; nothing was accepted"
                : """
                the user has several Live Activities of this type: \(ids.joined(separator: ", ")). Name one in to, as activity beside \
                user
                """
        )
    }
}
