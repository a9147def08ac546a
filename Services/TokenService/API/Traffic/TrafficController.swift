import HTTPTypes
import Hummingbird
package import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit
package import TokenServiceSending

/// `/v1/apps/{app}/activity`: an app's outcomes by minute, and how long the lanes' jobs wait.
package struct TrafficController: Sendable {
    package let pool: PostgresPool
    package let waits: LaneWaits

    package init(pool: PostgresPool, waits: LaneWaits) {
        self.pool = pool
        self.waits = waits
    }

    func bind(to router: APIRouter) { router.on(.readTraffic, read) }

    @Sendable private func read(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let minutes = try await pool.session { session in try Traffic.minutes(of: app, in: session) }
        let lanes = Lane.allCases.map { Traffic.LaneState(lane: $0, wait: waits.wait(of: $0), slack: waits.slack(of: $0)) }
        return JSONAnswer.response(.ok, Traffic.response, Traffic(minutes: minutes, lanes: lanes))
    }
}

/// What an app's deliveries came to in the last hour, and how the lanes that it shares with the others are.
struct Traffic: Sendable {
    struct Minute: Sendable {
        /// UNIX milliseconds.
        let start: Int64
        let outcomes: [OutcomeClass: Int]
    }

    struct LaneState: Sendable {
        let lane: Lane
        /// Seconds; see ``LaneWaits``.
        let wait: Double
        let slack: Double
    }

    let minutes: [Minute]
    let lanes: [LaneState]

    /// The last sixty minutes that have outcomes, the oldest first.
    static func minutes(of app: App, in session: PostgresSession) throws -> [Minute] {
        let rows = try session.execute(
            """
            SELECT minute, class, count FROM outcome_counts WHERE app_id = \(app.id) AND minute > now() - interval '1 hour'
            ORDER BY minute
            """)
        var minutes: [Minute] = []
        for row in rows {
            let (start, count): (Int64, Int64) = (try row.milliseconds("minute"), try row["count"])
            guard let outcome = OutcomeClass(rawValue: try row["class"]) else { continue }
            let outcomes = minutes.last?.start == start ? minutes.removeLast().outcomes : [:]
            minutes.append(Minute(start: start, outcomes: outcomes.merging([outcome: Int(count)]) { $1 }))
        }
        return minutes
    }
}

extension Traffic {
    static let response = ResponseSchema<Traffic>.object(
        "Activity",
        [
            .required("minutes", .array(minute), "The last hour's minutes that have outcomes, the oldest first.") { $0.minutes },
            .required("lanes", .array(lane), "The lanes, which all apps share, as this instance sees them.") { $0.lanes },
        ])

    private static let minute = ResponseSchema<Minute>.object(
        nil,
        [
            .required("minute", .time, "Its beginning.") { $0.start },
            .required("outcomes", outcomes, "Deliveries that got their outcome in it, by class; a class without any is left out.") { $0 },
        ])

    private static let outcomes = ResponseSchema<Minute>.object(
        "MinuteOutcomes", OutcomeClass.allCases.map { outcome in .optional(outcome.rawValue, .count) { $0.outcomes[outcome] } })

    private static let lane = ResponseSchema<LaneState>.object(
        nil,
        [
            .required("lane", .word) { $0.lane },
            .required("wait_seconds", .seconds, "How long the oldest job has waited for a dispatcher; 0 if none waits.") { $0.wait },
            .required(
                "deadline_seconds", .seconds, "Until the first of the waiting jobs expires; at most 86400, also if none waits."
            ) { $0.slack },
        ])
}

extension ResponseSchema where Value == Double {
    fileprivate static var seconds: ResponseSchema { ResponseSchema(schema: .number) { $1.value($0) } }
}

extension APIRoute {
    package static let readTraffic = APIRoute(.get, "/v1/apps/{app}/activity", .read)
}

extension Operation {
    static let readTraffic = Operation(
        .readTraffic, "readActivity", "The last hour at a glance",
        "For a page that is looked at; programs count better by events or metrics. It costs one small query.",
        answers: [Answer(200, "The hour, and the lanes.", .json(Traffic.response))])
}
