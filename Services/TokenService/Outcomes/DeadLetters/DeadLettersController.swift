import HTTPTypes
import Hummingbird
package import Logging
import Metrics
package import Observability
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit

/// `/v1/admin/dead-letters`
package struct DeadLettersController: Sendable {
    package let letters: DeadLetterService
    package let metrics: DeadLetterMetrics
    package let logger: Logger

    package init(letters: DeadLetterService, metrics: DeadLetterMetrics, logger: Logger) {
        self.letters = letters
        self.metrics = metrics
        self.logger = logger
    }

    package func bind(to router: some RouteBinder) {
        router.on(.listDeadLetters, list)
        router.on(.readDeadLetter, read)
        router.on(.replayDeadLetters, replay)
        router.on(.dropDeadLetters, drop)
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        let limit = try PageQuery.limit(call)
        let list = try await letters.list(try Self.filter(call), limit: limit)
        return JSONAnswer.response(.ok, DeadLetterService.list, list)
    }

    @Sendable private func read(_ call: APICall) async throws -> Response {
        let list = try await letters.list(DeadLetterFilter(ids: [try call.id("id")]), limit: 1)
        guard let letter = list.letters.first else { throw APIError.notFound }
        return JSONAnswer.response(.ok, DeadLetter.inFull, letter)
    }

    @Sendable private func replay(_ call: APICall) async throws -> Response {
        let (filter, extending) = try await call.body().object { body -> (DeadLetterFilter, Int64?)? in
            let extending = body.optionalInteger("extend_seconds", in: DeadLetterFilter.extensionSeconds)
            return DeadLetterFilter(&body).map { ($0, extending) }
        }
        let replayed = try await letters.replay(filter, extending: extending, by: call.actor)
        metrics.deadLetters(replayed: replayed.letters)
        logger.notice("Dead letters were replayed", metadata: [LogKey.count: "\(replayed.letters)"])
        return JSONAnswer.response(.ok, DeadLetterService.replayed, replayed)
    }

    @Sendable private func drop(_ call: APICall) async throws -> Response {
        let filter = try await call.body().object { DeadLetterFilter(&$0) }
        let dropped = try await letters.drop(filter, by: call.actor)
        metrics.deadLetters(dropped: dropped.letters)
        logger.notice("Dead letters were dropped", metadata: [LogKey.count: "\(dropped.letters)"])
        return JSONAnswer.response(.ok, DeadLetterService.dropped, dropped)
    }

    private static func filter(_ call: APICall) throws -> DeadLetterFilter {
        var filter = DeadLetterFilter(reason: try call.words("reason", maximumBytes: 64), lane: try call.choice("lane", of: Lane.self))
        filter.app = try call.slug("app")
        if let text = try call.query("notification") {
            guard let id = PushID(text) else { throw APIError.invalid("notification", .invalidID, "must be a UUID") }
            filter.notification = id
        }
        return filter
    }
}

extension APIRoute {
    package static let listDeadLetters = APIRoute(.get, "/v1/admin/dead-letters", .admin)
    package static let readDeadLetter = APIRoute(.get, "/v1/admin/dead-letters/{id}", .admin)
    package static let replayDeadLetters = APIRoute(.post, "/v1/admin/dead-letters/replay", .admin, audit: .deadLettersReplayed)
    package static let dropDeadLetters = APIRoute(.post, "/v1/admin/dead-letters/drop", .admin, audit: .deadLettersDropped)
}

extension Resource {
    package static let deadLetters = Resource(
        "Dead letters",
        "Jobs that were given up, and messages that no service could read. They wait in the broker until they are replayed or dropped.",
        [list, read, replay, drop])

    private static let busy: [ProblemCode] = [.deadLettersBusy, .brokerUnavailable]

    private static let list = Operation(
        .listDeadLetters, "listDeadLetters", "What was given up, and how many of what",
        "Looks at the oldest 20,000. Nothing is taken out of its place.",
        parameters: [
            .query("limit", .integer(1...1000).standard(100), "Letters to show."), .query("app", .slug, "Of this app."),
            .query("reason", DeadLetter.reason, "Given up for this reason."), .query("lane", .words(Lane.self), "Of this lane."),
            .query("notification", .uuid, "Of this notification."),
        ], answers: [Answer(200, "Counts of all that the filters meet, and the oldest of them.", .json(DeadLetterService.list))],
        problems: [.unsupportedValue, .outOfRange, .invalidID] + busy)

    private static let read = Operation(
        .readDeadLetter, "readDeadLetter", "One dead letter", "With its job, without payload and whole tokens.",
        answers: [Answer(200, "The letter.", .json(DeadLetter.inFull))], problems: [.notFound] + busy)

    private static let replay = Operation(
        .replayDeadLetters, "replayDeadLetters", "Send again what was given up",
        """
        Every delivery is resolved anew: it goes to the device only where the user it was for is still signed in, and to the token that \
        the installation has now; under the same id, so that a copy that arrived after all is replaced. At most 500 letters a call; \
        repeatable.
        """,
        request: .json(DeadLetterFilter.replay), answers: [Answer(200, "What became of each.", .json(DeadLetterService.replayed))],
        problems: busy)

    private static let drop = Operation(
        .dropDeadLetters, "dropDeadLetters", "Drop dead letters for good", "At most 500 a call.", request: .json(DeadLetterFilter.request),
        answers: [Answer(200, "Dropped.", .json(DeadLetterService.dropped))], problems: busy)

}

/// Counts replayed and dropped dead letters.
package struct DeadLetterMetrics: Sendable {
    private let replayed: Counter
    private let dropped: Counter

    package init(_ registry: PrometheusMetrics) {
        replayed = registry.counter("push_token_service_dead_letters_replayed_total", "Dead letters that were replayed and are gone.")
        dropped = registry.counter("push_token_service_dead_letters_dropped_total", "Dead letters that were dropped.")
    }

    func deadLetters(replayed number: Int) { replayed.increment(by: number) }
    func deadLetters(dropped number: Int) { dropped.increment(by: number) }
}
