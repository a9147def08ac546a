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

    /// The same with a long list.
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

    /// For each key, the answer to a repeated request that would be refused now and was accepted earlier: its `not_before` has passed, or
    /// the key has lost a scope. Nil if no request was accepted with the key.
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

    /// The same body, validated and not sent.
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
        return JSONAnswer.response(.accepted, NotificationReceipt.response, receipt, headers: headers)
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
