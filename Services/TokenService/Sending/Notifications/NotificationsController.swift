package import HTTPTypes
import Hummingbird
import Observability
package import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
package import TokenServiceKit

/// `/v1/apps/{app}/notifications`
package struct NotificationsController: Sendable {
    package let pool: PostgresPool
    package let intake: NotificationIntake
    package let cancellation: Cancellation
    package let uploads: SharedLimit
    package let metrics: NotificationMetrics
    package let errors: InternalErrors

    package init(
        pool: PostgresPool, intake: NotificationIntake, cancellation: Cancellation, uploads: SharedLimit, metrics: NotificationMetrics,
        errors: InternalErrors
    ) {
        self.pool = pool
        self.intake = intake
        self.cancellation = cancellation
        self.uploads = uploads
        self.metrics = metrics
        self.errors = errors
    }

    package func bind(to router: some RouteBinder) {
        router.on(.send, send)
        router.on(.upload, upload)
        router.on(.sendBatch, sendBatch)
        router.on(.broadcast, broadcast)
        router.on(.validate, validate)
        router.on(.readNotification, read)
        router.on(.cancelNotification, cancel)
    }

    @Sendable private func send(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let body = try await call.body(maximumBytes: NotificationRequest.maximumBodyBytes)
        return try await send(body, of: call, app: app, to: .stated)
    }

    /// A notification to the channel that the path names.
    @Sendable private func broadcast(_ call: APICall) async throws -> Response {
        let (app, name) = (try call.app(), try call.channelName())
        let body = try await call.body(maximumBytes: NotificationRequest.maximumBodyBytes)
        return try await send(body, of: call, app: app, to: .channel(name))
    }

    /// Sends a notification with a long list.
    @Sendable private func upload(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let place = try uploads.enter(call.caller)
        defer { place.end() }
        return try await offItsLoop {
            let body = try await call.body(maximumBytes: NotificationRequest.maximumUploadBytes, isBudgeted: false)
            return try await send(body, of: call, app: app, to: .upload)
        }
    }

    /// Parse, validate, accept, answer 202.
    private func send(
        _ body: CallBody, of call: APICall, app: App, to addressing: NotificationRequest.Addressing
    ) async throws -> Response {
        let now = UnixTime.milliseconds()
        let idempotency = try Self.idempotency(call, body: body)
        var request: NotificationRequest
        do {
            request = try Self.request(of: call, body, now: now, addressing)
            if request.namesActivityByType {
                request = try await pool.session { [request] session in try request.namingActivity(of: app, in: session) }
            }
            if case .channel(let name) = addressing { try await expectOpen(name, of: app) }
        } catch let fault as APIError {
            guard let idempotency, let known = try await earlier([idempotency], app: app)[0] else { throw fault }
            return answer(try known.get())
        }
        // Counts as the number of ordinary requests that it replaces.
        call.charge(((request.target.count ?? 1) - 1) / NotificationRequest.Target.maximumListed)
        if request.pushType == .background {
            request.warnings += try await pool.session { [request] session in
                let recent = try AudienceCount(session: session, app: app).recentBackgroundPushes([request.target], now: now)[0]
                return request.warnings(recentBackgroundPushes: recent)
            }
        }
        let acceptance = try await intake.accept(
            request, app: app, idempotency: idempotency, trace: Self.trace, now: now)
        return answer(acceptance)
    }

    private func expectOpen(_ channel: String, of app: App) async throws {
        let found = try await pool.session { session in try ChannelReading(session: session, app: app).channel(channel) }
        guard let found else { throw APIError.notFound }
        guard found.state == .open else { throw APIError.channelNotOpen(found.state) }
    }

    /// Reads, for each key, the answer to a repeated request that would be refused now and was accepted earlier: its `not_before` has
    /// passed, or the key has lost a scope. Nil if no request was accepted with the key.
    func earlier(_ keys: [IdempotencyKey], app: App) async throws -> [Result<NotificationIntake.Acceptance, any Error>?] {
        let insertions = try await pool.session { session in
            let records = IdempotencyRecords(session: session, app: app)
            return try keys.map { key in try records.earlier(key) }
        }
        return insertions.map { insertion -> Result<NotificationIntake.Acceptance, any Error>? in
            switch insertion {
            case .replay(let receipt): .success(NotificationIntake.Acceptance(receipt: receipt, isReplay: true))
            case .mismatch: .failure(IdempotencyMismatch())
            case .resolved, .leftToFanOut, .activityExists, .keyInProgress, nil: nil
            }
        }
    }

    /// Validates the body of a notification, and sends nothing.
    @Sendable private func validate(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let body = try await call.body(maximumBytes: NotificationRequest.maximumBodyBytes)
        let now = UnixTime.milliseconds()
        var request = try Self.request(of: call, body, now: now)
        let (audience, warnings) = try await pool.session { [request] session in
            let (count, request) = (AudienceCount(session: session, app: app), try request.namingActivity(of: app, in: session))
            let audience = try count.estimate(request)
            let recent = request.pushType == .background ? try count.recentBackgroundPushes([request.target], now: now)[0] : 0
            var warnings = request.warnings(recentBackgroundPushes: recent) + request.warnings(audience: audience)
            if case .tags(let expression) = request.target, audience.isEmpty, try count.namesTagsOfApps(expression) {
                warnings.append(NotificationWarning(.appTagMeant, at: "/to/tags"))
            }
            return (audience, warnings)
        }
        request.warnings += warnings
        let validation = NotificationValidation(request: request, bundleID: app.bundleID, audience: audience)
        return JSONAnswer.response(.ok, NotificationValidation.response, validation)
    }

    private static func request(
        of call: APICall, _ body: CallBody, now: Int64, _ addressing: NotificationRequest.Addressing = .stated
    ) throws -> NotificationRequest {
        let isUpload = if case .upload = addressing { true } else { false }
        let request = try body.object(maximumValues: isUpload ? NotificationRequest.maximumUploadValues : nil) {
            NotificationRequest(&$0, source: body.bytes, now: now, addressing)
        }
        try request.checkLane(of: call.caller)
        return request
    }

    @Sendable private func cancel(_ call: APICall) async throws -> Response {
        let app = try call.app()
        return JSONAnswer.response(.ok, Cancelled.response, try await cancellation.cancel(try call.id("id"), app: app))
    }

    @Sendable private func read(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let id = try call.id("id")
        let status = try await pool.transaction(isolation: .repeatableRead) { session in
            try NotificationReading(session: session, app: app).status(of: id)
        }
        guard let status else { throw APIError.notFound }
        return JSONAnswer.response(.ok, NotificationStatus.response, status)
    }

    private func answer(_ acceptance: NotificationIntake.Acceptance) -> Response {
        let receipt = acceptance.receipt
        metrics.accepted(lane: receipt.lane, isReplay: acceptance.isReplay)
        var headers: HTTPFields = [.location: "/v1/apps/\(receipt.app.text)/notifications/\(receipt.id.description)"]
        if acceptance.isReplay, let name = HTTPField.Name.idempotencyReplay { headers[name] = "true" }
        return JSONAnswer.response(.accepted, AcceptedNotification.response, receipt, headers: headers)
    }

    private static func idempotency(_ call: APICall, body: CallBody) throws -> IdempotencyKey? {
        guard let key = HTTPField.Name.idempotencyKey.flatMap(call.request.headers.text) else { return nil }
        return try IdempotencyKey(key, at: "Idempotency-Key", of: call.caller, body: body.bytes)
    }

    /// The request's, which ``RequestObservation`` began.
    static var trace: TraceContext { .current ?? .random(isSampled: false) }
}

extension HTTPFields {
    /// A header that HTTPTypes has no name for.
    package subscript(_ name: String) -> String? {
        get { HTTPField.Name(name).flatMap { self[$0] } }
        set {
            if let name = HTTPField.Name(name) { self[name] = newValue }
        }
    }
}

extension APIRoute {
    package static let send = APIRoute(.post, "/v1/apps/{app}/notifications", .send)
    package static let sendBatch = APIRoute(.post, "/v1/apps/{app}/notifications/batch", .send)
    package static let upload = APIRoute(.post, "/v1/apps/{app}/notifications/upload", .send)
    package static let validate = APIRoute(.post, "/v1/apps/{app}/notifications/validate", .send)
    package static let cancelNotification = APIRoute(.delete, "/v1/apps/{app}/notifications/{id}", .send)
    package static let readNotification = APIRoute(.get, "/v1/apps/{app}/notifications/{id}", .read)
}

extension Resource {
    package static let notifications = Resource(
        "Notifications", "Sending, and what became of it.", [send, sendBatch, upload, validate, cancel, read])

    private static let send = Operation(
        .send, "sendNotification", "Send a notification",
        "202 means that it is durable and will be sent: at least once, unless `on_unknown` is `drop` or `resend_once`.",
        parameters: sendParameters, request: .json(NotificationRequest.schema), answers: [accepted], problems: sendProblems)

    private static let upload = Operation(
        .upload, "uploadNotification", "Send a notification to up to 100,000 users or installations",
        """
        The same as sending, with a longer list in `to`. Each 1000 entries count as a request. A list of more than 1000 is an audience: by \
        itself its lane is `bulk` and its `receipts` are `failures`.
        """,
        parameters: sendParameters,
        request: OperationBody(
            mediaTypes: ["application/json"], schema: NotificationRequest.uploadSchema, description: "At most 32 MiB."),
        answers: [accepted], problems: sendProblems)

    static let sendParameters: [Parameter] = [
        .header(
            "Idempotency-Key", .string(pattern: "^[ -~]{1,255}$").example("order-4711-packed"),
            "The same key with the same body answers the same again, for at least 24 hours per app and API key."),
        .header("traceparent", .string(), "W3C trace context; travels with the notification."),
    ]

    static let accepted = Answer(
        202, "Accepted.", .json(AcceptedNotification.response),
        headers: [
            .always("Location", .string(), "Where its state can be read."),
            .sometimes("Idempotency-Replay", .words(["true"]), "The key was used before: this is the first answer again."),
        ])

    static let sendProblems: [ProblemCode] = [
        .activityExists, .activityNotSingle, .idempotencyInProgress, .idempotencyKeyReused, .invalidIdempotencyKey, .laneNotAllowed,
        .backlogFull,
    ]

    private static let sendBatch = Operation(
        .sendBatch, "sendNotifications", "Send up to 1000 notifications in one request",
        """
        Each item is accepted or refused as if it had been sent alone; a bad one harms no other. Results are in the order of the request: \
        a receipt, or the problem that sending it alone would answer with. Pointers of a result lead into the item's `notification`; those \
        to the item around it begin with `/notifications/`. Of two items with one key, the later one finds what became of the first. \
        Otherwise the items take effect in no promised order. Each item counts as a request.
        """,
        parameters: [.header("traceparent", .string(), "W3C trace context; travels with each notification.")],
        request: OperationBody(
            mediaTypes: ["application/json"], schema: NotificationBatch.request,
            description: "At most 4 MiB, and each notification at most as large as one that is sent alone, 1 MiB.", isItemwise: true),
        answers: [Answer(202, "One result for each item.", .json(NotificationBatch.response))], problems: [.invalidIdempotencyKey])

    private static let validate = Operation(
        .validate, "validateNotification", "Say what a notification would do, without sending it",
        """
        The same body as for sending, refused for the same reasons. Answers what would be sent, in every locale, and to how many devices. \
        Of an audience of more than 10,000 devices only so many are looked at.
        """,
        request: .json(NotificationRequest.schema), answers: [Answer(200, "It would be accepted.", .json(NotificationValidation.response))],
        problems: [.activityNotSingle, .laneNotAllowed])

    private static let read = Operation(
        .readNotification, "readNotification", "What became of a notification, delivery by delivery",
        answers: [
            Answer(200, "Its state, exact counts, and its first 1000 deliveries, all of one moment.", .json(NotificationStatus.response))
        ],
        problems: [.unknownParameter])

    private static let cancel = Operation(
        .cancelNotification, "cancelNotification", "Stop a notification",
        """
        Nothing more of it is sent from one second after `fence` is `effective`. What has its outcome keeps it; the rest becomes \
        `cancelled`. Repeating it changes nothing.
        """,
        answers: [Answer(200, "Its state now, and how many deliveries could still be stopped.", .json(Cancelled.response))])

}

/// `POST /v1/apps/{app}/notifications/batch`: handles each item as a request of its own, in shared transactions.
extension NotificationsController {
    private typealias ItemAnswer = Result<NotificationIntake.Acceptance, any Error>

    @Sendable func sendBatch(_ call: APICall) async throws -> Response {
        let app = try call.app()
        guard HTTPField.Name.idempotencyKey.flatMap(call.request.headers.text) == nil else {
            throw APIError.invalid(
                "Idempotency-Key", .invalidIdempotencyKey, "each item of a batch has a key of its own, in idempotency_key")
        }
        let body = try await call.body(maximumBytes: NotificationBatch.maximumBodyBytes)
        return try await offItsLoop { try await sendBatch(body, of: call, app: app) }
    }

    private func sendBatch(_ body: CallBody, of call: APICall, app: App) async throws -> Response {
        let now = UnixTime.milliseconds()
        let batch = try body.object(maximumDepth: NotificationBatch.maximumDepth) {
            NotificationBatch(&$0, source: body.bytes, caller: call.caller, now: now)
        }
        call.charge(batch.items.count - 1)
        let answers = await accept(await named(batch.items, app: app), app: app, trace: Self.trace, now: now)
        return JSONAnswer.response(.accepted, NotificationBatch.response, answers.map { outcome(of: $0) })
    }

    /// One answer for each item, in their order.
    private func accept(_ items: [NotificationBatch.Item], app: App, trace: TraceContext, now: Int64) async -> [ItemAnswer] {
        var answers: [Int: ItemAnswer] = [:]
        var requests: [(request: NotificationRequest, idempotency: IdempotencyKey?)] = []
        var places: [Int] = []
        for (index, request) in await warned(items.map(\.request), app: app, now: now).enumerated() {
            switch request {
            case .success(let request):
                requests.append((request, items[index].idempotency))
                places.append(index)
            case .failure(let error): answers[index] = .failure(error)
            }
        }
        let accepted = await intake.accept(requests, app: app, trace: trace, now: now)
        for (index, answer) in zip(places, accepted) { answers[index] = answer }
        // After the others: one of them may have been accepted with the key.
        answers.merge(await repeats(among: items, app: app)) { $1 }
        return items.indices.map { answers[$0] ?? .failure(MissingAnswer()) }
    }

    /// The items, with the names of the activities that they give by user and type.
    private func named(_ items: [NotificationBatch.Item], app: App) async -> [NotificationBatch.Item] {
        guard items.contains(where: \.namesActivityByType) else { return items }
        do {
            return try await pool.session { session in
                let requests = items.compactMap { item in try? item.request.get() }
                var named = try NotificationRequest.namingActivities(requests, of: app, in: session).makeIterator()
                return items.map { item in
                    guard case .success = item.request, let request = named.next() else { return item }
                    return NotificationBatch.Item(idempotency: item.idempotency, request: request)
                }
            }
        } catch {
            return items.map { item in
                item.namesActivityByType ? NotificationBatch.Item(idempotency: item.idempotency, request: .failure(error)) : item
            }
        }
    }

    /// The requests, with the warnings that depend on earlier requests.
    private func warned(
        _ requests: [Result<NotificationRequest, any Error>], app: App, now: Int64
    ) async -> [Result<NotificationRequest, any Error>] {
        var background: [(index: Int, request: NotificationRequest)] = []
        for (index, request) in requests.enumerated() {
            if case .success(let request) = request, request.pushType == .background { background.append((index, request)) }
        }
        guard !background.isEmpty else { return requests }
        var warned = requests
        do {
            let counts = try await pool.session { [targets = background.map(\.request.target)] session in
                try AudienceCount(session: session, app: app).recentBackgroundPushes(targets, now: now)
            }
            for ((index, request), recent) in zip(background, counts) {
                var request = request
                request.warnings += request.warnings(recentBackgroundPushes: recent)
                warned[index] = .success(request)
            }
        } catch {
            for (index, _) in background { warned[index] = .failure(error) }
        }
        return warned
    }

    /// Reads the answers to repeated requests that would be refused now and were accepted earlier, by index.
    private func repeats(among items: [NotificationBatch.Item], app: App) async -> [Int: ItemAnswer] {
        var refused: [(index: Int, key: IdempotencyKey)] = []
        for (index, item) in items.enumerated() {
            if case .failure = item.request, let key = item.idempotency { refused.append((index, key)) }
        }
        var answers: [Int: ItemAnswer] = [:]
        guard !refused.isEmpty else { return answers }
        do {
            let known = try await earlier(refused.map(\.key), app: app)
            for ((index, _), answer) in zip(refused, known) { answers[index] = answer }
        } catch {
            for (index, _) in refused { answers[index] = .failure(error) }
        }
        return answers
    }

    private func outcome(of answer: ItemAnswer) -> NotificationBatch.Outcome {
        switch answer {
        case .success(let acceptance):
            metrics.accepted(lane: acceptance.receipt.lane, isReplay: acceptance.isReplay)
            return .accepted(acceptance)
        case .failure(let error):
            return .refused(errors.answer(to: error, "An item of a batch failed"))
        }
    }
}

extension NotificationBatch.Item {
    fileprivate var namesActivityByType: Bool {
        if case .success(let request) = request { request.namesActivityByType } else { false }
    }
}
