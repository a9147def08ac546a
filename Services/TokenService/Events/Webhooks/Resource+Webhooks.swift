import HTTPTypes
package import TokenServiceApps
import TokenServiceKit

extension APIRoute {
    package static let createWebhook = APIRoute(.post, "/v1/apps/{app}/webhooks", .admin, audit: .webhookCreated)
    package static let listWebhooks = APIRoute(.get, "/v1/apps/{app}/webhooks", .admin)
    package static let readWebhook = APIRoute(.get, "/v1/apps/{app}/webhooks/{id}", .admin)
    package static let changeWebhook = APIRoute(.patch, "/v1/apps/{app}/webhooks/{id}", .admin, audit: .webhookChanged)
    package static let deleteWebhook = APIRoute(.delete, "/v1/apps/{app}/webhooks/{id}", .admin, audit: .webhookDeleted)
    package static let rotateWebhook = APIRoute(.post, "/v1/apps/{app}/webhooks/{id}/rotate", .admin, audit: .webhookRotated)
    package static let pingWebhook = APIRoute(.post, "/v1/apps/{app}/webhooks/{id}/ping", .admin, audit: .webhookPinged)
    package static let listWebhookMessages = APIRoute(.get, "/v1/apps/{app}/webhooks/{id}/messages", .admin)
    package static let redeliverWebhookMessages = APIRoute(
        .post, "/v1/apps/{app}/webhooks/{id}/redeliver", .admin, audit: .webhookRedelivered)
}

extension Resource {
    package static let webhooks = Resource(
        "Webhooks",
        """
        Events by HTTP, signed as Standard Webhooks says. Each message is one CloudEvents event; at least once, in no promised order, \
        under the same `webhook-id` every time.
        """,
        [create, list, read, change, delete, rotate, ping, messages, redeliver])

    private static let create = Operation(
        .createWebhook, "createWebhook", "Make a webhook",
        "The answer, and that of a rotation, are the only places where the secret is shown. An app may have \(Webhook.maximumPerApp).",
        request: .json(Webhook.new), answers: [Answer(201, "Made.", .json(Webhook.response))], problems: [.tooManyWebhooks])

    private static let list = Operation(
        .listWebhooks, "listWebhooks", "All webhooks of the app", "Without their secrets.",
        answers: [Answer(200, "By age, the oldest first.", .json(Webhook.list))])

    private static let read = Operation(
        .readWebhook, "readWebhook", "One webhook", answers: [Answer(200, "The webhook.", .json(Webhook.response))], problems: [.notFound])

    private static let change = Operation(
        .changeWebhook, "changeWebhook", "Change a webhook", "A merge patch (RFC 7396): what the body does not name stays as it is.",
        request: .mergePatch(Webhook.change), answers: [Answer(200, "The webhook as it is now.", .json(Webhook.response))],
        problems: [.notFound])

    private static let delete = Operation(
        .deleteWebhook, "deleteWebhook", "Delete a webhook", "With everything that waits for it.",
        answers: [Answer(204, "It is gone.")], problems: [.notFound])

    private static let rotate = Operation(
        .rotateWebhook, "rotateWebhook", "Make a new secret",
        "For a while every message is signed with both; a still older one is signed with no more.",
        request: .json(Webhook.rotation, isRequired: false),
        answers: [Answer(200, "Made; `secret` is shown here only.", .json(Webhook.response))], problems: [.notFound])

    private static let ping = Operation(
        .pingWebhook, "pingWebhook", "Send a test message", "It goes the way of every event; the list of messages shows what came of it.",
        answers: [Answer(202, "It waits to be sent.", .json(Webhook.ping))], problems: [.notFound, .webhookDisabled])

    private static let messages = Operation(
        .listWebhookMessages, "listWebhookMessages", "What was sent, and what waits",
        parameters: [.query("state", .words(WebhookMessage.State.self), "Only those in this state.")] + Parameter.page,
        answers: [Answer(200, "One page, the newest first.", .json(WebhookMessage.page))], problems: ProblemCode.page)

    private static let redeliver = Operation(
        .redeliverWebhookMessages, "redeliverWebhookMessages", "Send messages again",
        "Under the same ids, from the first attempt on.", request: .json(Webhook.redelivery),
        answers: [Answer(200, "They are due now.", .json(Webhook.redelivered))], problems: [.notFound])

}
