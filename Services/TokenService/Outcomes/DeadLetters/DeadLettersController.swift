import Hummingbird
package import Logging
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
