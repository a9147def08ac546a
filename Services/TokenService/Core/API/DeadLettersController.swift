import Hummingbird
import Logging
import PushModel
import StrictJSON

/// `/v1/admin/dead-letters`
struct DeadLettersController: Sendable {
    /// Letters that one request may name.
    static let maximumNamed = 500
    /// No notification lives longer.
    static let extensionSeconds: ClosedRange<Int64> = 1...259_200

    let desk: DeadLetterDesk
    let metrics: TokenServiceMetrics
    let logger: Logger

    func bind(to router: APIRouter) {
        router.on(.listDeadLetters, list)
        router.on(.readDeadLetter, read)
        router.on(.replayDeadLetters, replay)
        router.on(.dropDeadLetters, drop)
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        try call.allowQuery(["limit", "app", "reason", "lane", "notification"])
        let limit = try PageQuery.limit(call)
        let list = try await desk.list(try Self.filter(call), limit: limit)
        return JSONAnswer.response(.ok) { writer in
            writer.object { object in
                object.field("matched", list.matched)
                object.field("seen", list.seen)
                object.field("complete", list.isComplete)
                object.array("counts") { array in
                    for (count, letters) in list.counts.sorted(by: { $0.key < $1.key }) {
                        array.object { object in
                            object.field("reason", count.reason)
                            object.field("app", count.app?.text)
                            object.field("letters", letters)
                            object.field("deliveries", list.deliveries[count] ?? 0)
                        }
                    }
                }
                object.array("letters") { array in
                    for letter in list.letters { array.object { letter.write(to: &$0) } }
                }
            }
        }
    }

    @Sendable private func read(_ call: APICall) async throws -> Response {
        let list = try await desk.list(DeadLetterFilter(ids: [try call.id("id")]), limit: 1)
        guard let letter = list.letters.first else { throw APIError.notFound }
        return JSONAnswer.response(.ok) { writer in
            writer.object { object in
                letter.write(to: &object)
                if let job = letter.job { object.field("job", raw: Array(job.jsonDescription().utf8)) }
            }
        }
    }

    @Sendable private func replay(_ call: APICall) async throws -> Response {
        let (filter, extending) = try await call.body().object { body -> (DeadLetterFilter, Int64?)? in
            let extending = body.optionalInteger("extend_seconds", in: Self.extensionSeconds)
            return Self.filter(&body).map { ($0, extending) }
        }
        let replayed = try await desk.replay(filter, extending: extending)
        metrics.deadLetters(replayed: replayed.letters)
        logger.notice("Dead letters were replayed", metadata: [LogKey.count: "\(replayed.letters)"])
        return JSONAnswer.response(.ok) { writer in
            writer.object { object in
                object.field("letters", replayed.letters)
                object.field("kept", replayed.kept)
                object.field("unreadable", replayed.unreadable)
                object.object("deliveries") { object in
                    for verdict in DeadLetterReplay.Verdict.allCases {
                        object.field(verdict.rawValue, replayed.deliveries[verdict] ?? 0)
                    }
                }
                object.field("remaining", replayed.remaining)
            }
        }
    }

    @Sendable private func drop(_ call: APICall) async throws -> Response {
        let filter = try await call.body().object { body in Self.filter(&body) }
        let dropped = try await desk.drop(filter)
        metrics.deadLetters(dropped: dropped.letters)
        logger.notice("Dead letters were dropped", metadata: [LogKey.count: "\(dropped.letters)"])
        return JSONAnswer.response(.ok) { writer in
            writer.object { object in
                object.field("letters", dropped.letters)
                object.field("deliveries", dropped.deliveries)
                object.field("remaining", dropped.remaining)
            }
        }
    }

    // MARK: Filters

    private static func filter(_ call: APICall) throws -> DeadLetterFilter {
        var filter = DeadLetterFilter(reason: try call.words("reason", maximumBytes: 64), lane: try call.choice("lane", of: Lane.self))
        if let text = try call.query("app") {
            guard let app = AppSlug(text) else { throw APIError.invalid("app", "unsupported_value", "must be an app's slug") }
            filter.app = app
        }
        if let text = try call.query("notification") {
            guard let id = PushID(text) else { throw APIError.invalid("notification", "invalid_id", "must be a UUID") }
            filter.notification = id
        }
        return filter
    }

    /// Nothing named is not everything: that has to be said.
    private static func filter(_ body: inout JSONObjectReader) -> DeadLetterFilter? {
        var filter = DeadLetterFilter(
            reason: body.optionalString("reason", maximumBytes: 64), lane: body.optionalChoice("lane", of: Lane.self))
        if let text = body.optionalString("app", maximumBytes: 64) {
            filter.app = AppSlug(text)
            if filter.app == nil { body.problem("app", "unknown_app", "must be an app's slug") }
        }
        if let text = body.optionalString("notification", maximumBytes: 36) {
            filter.notification = PushID(text)
            if filter.notification == nil { body.problem("notification", "invalid_id", "a UUID") }
        }
        if body.has("ids"), let texts = body.strings("ids", maximumCount: maximumNamed, maximumBytes: 36) {
            let ids = texts.map { PushID($0) }
            for (index, id) in ids.enumerated() where id == nil { body.problem("ids", step: "/\(index)", "invalid_id", "a UUID") }
            if ids.isEmpty { body.problem("ids", "too_short", "at least one") }
            filter.ids = Set(ids.compactMap(\.self))
        }
        let isAll = body.optionalBool("all") ?? false
        body.finish()
        if filter.isEmpty, !isAll { body.problem("all", "missing", "name what is meant, or say that all are") }
        if !filter.isEmpty, isAll { body.problem("all", "conflict", "all, or what else is named: not both") }
        return filter
    }
}

extension DeadLetter {
    fileprivate func write(to object: inout JSONWriter) {
        if let id { object.field("id", id.description) } else { object.null("id") }
        object.field("reason", reason)
        object.field("detail", detail)
        object.field("source", source)
        object.time("at", at)
        object.field("bytes", bytes)
        guard let job else { return }
        object.field("app", job.app.text)
        object.field("lane", job.lane.rawValue)
        object.field("notification", job.notification.description)
        object.field("push_type", job.pushType.rawValue)
        object.field("attempts", job.attempt)
        object.field("deliveries", job.deliveries.count)
        object.time("expires_at", job.expiresAt)
    }
}
