import HTTPTypes
import PushModel
package import TokenServiceApps
import TokenServiceKit

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
        The same as sending, with a longer list in `to`. Each 1000 entries count as a request. A list of more than 1000 is an audience: by itself \
        its lane is `bulk` and its `receipts` are `failures`.
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
        202, "Accepted.", .json(NotificationReceipt.response),
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
        Each item is accepted or refused as if it had been sent alone; a bad one harms no other. Results are in the order of the request: a \
        receipt, or the problem that sending it alone would answer with. Pointers of a result lead into the item's `notification`; those to \
        the item around it begin with `/notifications/`. Of two items with one key, the later one finds what became of the first. Otherwise \
        the items take effect in no promised order. Each item counts as a request.
        """,
        parameters: [.header("traceparent", .string(), "W3C trace context; travels with each notification.")],
        request: OperationBody(
            mediaTypes: ["application/json"], schema: NotificationBatch.request,
            description: "At most 4 MiB, and each notification at most as large as one that is sent alone, 1 MiB.", isItemwise: true),
        answers: [Answer(202, "One result for each item.", .json(NotificationBatch.response))], problems: [.invalidIdempotencyKey])

    private static let validate = Operation(
        .validate, "validateNotification", "Say what a notification would do, without sending it",
        """
        The same body as for sending, refused for the same reasons. Answers what would be sent, in every locale, and to how many devices. Of an \
        audience of more than 10,000 devices only so many are looked at.
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
        "Nothing more of it is sent from one second after `fence` is `effective`. What has its outcome keeps it; the rest becomes `cancelled`. Repeating it changes nothing.",
        answers: [Answer(200, "Its state now, and how many deliveries could still be stopped.", .json(Cancelled.response))])

}
