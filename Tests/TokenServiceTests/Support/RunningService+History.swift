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
            try session.execute(Self.selectHistory, [.id(installation), .textArray(events)]).map { row in
                HistoryLine(
                    event: try row.text(0), status: try row.optionalInt32(1), reason: try row.optionalText(2),
                    token: try row.optionalText(3), apnsTimestamp: try row.optionalTimestampMilliseconds(4),
                    delivery: try row.optionalID(5))
            }
        }
    }

    private static let selectHistory: PostgresStatement = """
        SELECT event, status::int, reason, concat_ws(' ', token_hint, environment, purpose), apns_timestamp, delivery
        FROM installation_history WHERE installation = $1 AND event = ANY ($2::text[]) ORDER BY id
        """
}
