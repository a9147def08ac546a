import Postgres
import PushModel
import TokenService

extension RunningService {
    /// A line of an installation's history, as far as tests look at it.
    struct HistoryLine: Equatable, Sendable {
        var event: String
        var status: Int32?
        var reason: String?
        /// Hint, environment and purpose.
        var token: String?
        var apnsTimestamp: Int64?
        var delivery: PushID?
    }

    /// An installation's history in its order, these events only.
    func history(_ installation: PushID, _ events: [String]) async throws -> [HistoryLine] {
        try await pool.session { session in
            let lines = try session.execute(
                """
                SELECT event, status::int, reason, concat_ws(' ', token_hint, environment, purpose) AS token, apns_timestamp, delivery
                FROM installation_history WHERE installation = \(installation) AND event = ANY (\(events)::text[]) ORDER BY id
                """)
            return try lines.map { row in
                HistoryLine(
                    event: try row["event"], status: try row["status"], reason: try row["reason"], token: try row["token"],
                    apnsTimestamp: try row.milliseconds("apns_timestamp"), delivery: try row["delivery"])
            }
        }
    }
}
