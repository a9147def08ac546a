import HTTPTypes
import Hummingbird
import Observability
import Postgres
import PushModel
import TokenServiceApps
import TokenServiceKit

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

    /// By index, the answers to repeated requests that would be refused now and were accepted earlier.
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
