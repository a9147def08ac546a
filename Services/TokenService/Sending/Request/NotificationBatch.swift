import PushModel
import StrictJSON
import TokenServiceApps
import TokenServiceKit

/// The body of `POST /v1/apps/{app}/notifications/batch`: many notifications, each of which is accepted or refused by itself.
struct NotificationBatch: Sendable {
    static let maximumItems = 1000
    static let maximumBodyBytes = 4 << 20
    /// The document, its list and the item stand around a notification, which may nest as deep as one that is sent alone.
    static let maximumDepth = JSONScanner.defaultMaximumDepth + 3

    struct Item: Sendable {
        let idempotency: IdempotencyKey?
        /// The request, or why it is refused.
        let request: Result<NotificationRequest, any Error>
    }

    let items: [Item]

    /// A fault of one item is that item's answer; only a fault of the list itself goes to `body.problems`.
    /// - Parameters:
    ///   - source: the bytes that the body was parsed from.
    ///   - now: UNIX milliseconds.
    init?(_ body: inout JSONObjectReader, source: [UInt8], caller: Caller, now: Int64) {
        let list = body.value("notifications")
        body.finish()
        guard let list else { return nil }
        guard let elements = list.arrayValue, (1...Self.maximumItems).contains(elements.count) else {
            body.problem("notifications", "out_of_range", "must be an array of 1 to \(Self.maximumItems) notifications")
            return nil
        }
        items = elements.enumerated().map { index, element in
            Item.read(element, at: "/notifications/\(index)", source: source, caller: caller, now: now)
        }
    }
}

extension NotificationBatch.Item {
    /// - Parameter pointer: To the item. Pointers into its notification begin at the notification, as if it had been sent alone.
    fileprivate static func read(
        _ element: JSONValue, at pointer: String, source: [UInt8], caller: Caller, now: Int64
    ) -> NotificationBatch.Item {
        var item = JSONObjectReader(element, at: pointer, problems: JSONProblems(maximum: JSONProblems.maximumOfItem))
        let notification = item.value("notification")
        let key = item.idempotencyKey()
        item.finish()
        guard let notification, item.problems.isEmpty else {
            return NotificationBatch.Item(idempotency: nil, request: .failure(APIError.invalid(item.problems.list)))
        }
        do {
            let idempotency = try key.map { key in
                try IdempotencyKey(key, at: "idempotency_key", of: caller, body: Array(source[notification.range]))
            }
            return NotificationBatch.Item(
                idempotency: idempotency, request: Result { try parse(notification, source: source, caller: caller, now: now) })
        } catch {
            return NotificationBatch.Item(idempotency: nil, request: .failure(error))
        }
    }

    /// The same limits and rules as for a body of its own.
    private static func parse(_ notification: JSONValue, source: [UInt8], caller: Caller, now: Int64) throws -> NotificationRequest {
        guard notification.range.count <= NotificationRequest.maximumBodyBytes else {
            throw APIError.bodyTooLarge(NotificationRequest.maximumBodyBytes)
        }
        var body = JSONObjectReader(notification, problems: JSONProblems(maximum: JSONProblems.maximumOfItem))
        let request = NotificationRequest(&body, source: source, now: now)
        guard body.problems.isEmpty, let request else { throw APIError.invalid(body.problems.list) }
        try request.checkLane(of: caller)
        return request
    }
}

extension JSONObjectReader {
    /// ``IdempotencyKey`` checks its length and its characters, as it does for a header.
    fileprivate mutating func idempotencyKey() -> String? {
        guard let value = optionalValue("idempotency_key") else { return nil }
        if value.stringValue == nil { problem("idempotency_key", "wrong_type", "expected a string, found \(value.typeName)") }
        return value.stringValue
    }
}

extension NotificationBatch {
    static let request = JSONSchema.request(
        "NotificationBatch", [.required("notifications", .array(item, minimum: 1, maximum: maximumItems))])

    private static let item = JSONSchema.request(
        "BatchItem",
        [
            .required("notification", NotificationRequest.schema),
            .omissible(
                "idempotency_key", .string(pattern: "^[ -~]{1,255}$").example("order-4711-packed"),
                """
                The same key with the same `notification`, byte for byte, answers the same again, for at least 24 hours per app and API key.
                """
            ),
        ])

    /// The result of an item.
    enum Outcome: Sendable {
        case accepted(NotificationIntake.Acceptance)
        case refused(APIError)
    }

    static let response = ResponseSchema<[Outcome]>.object("NotificationResults", [.required("results", .array(result)) { $0 }])

    private static let result = ResponseSchema<Outcome>(
        schema: .named("NotificationResult", .oneOf(accepted.schema, APIError.response.schema))
    ) { outcome, writer in
        switch outcome {
        case .accepted(let acceptance): accepted.write(acceptance, &writer)
        case .refused(let error): APIError.response.write(error, &writer)
        }
    }

    private static let accepted = ResponseSchema<NotificationIntake.Acceptance>.object(
        nil,
        [
            .all(AcceptedNotification.fields) { $0.receipt },
            .optional("replay", .boolean, "True where the key was used before: this is the first answer again. Absent otherwise.") {
                $0.isReplay ? true : nil
            },
        ])
}
