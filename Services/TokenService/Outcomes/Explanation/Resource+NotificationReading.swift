import HTTPTypes
import PushModel
package import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry
import TokenServiceSending

extension APIRoute {
    package static let listNotifications = APIRoute(.get, "/v1/apps/{app}/notifications", .read)
    package static let listDeliveries = APIRoute(.get, "/v1/apps/{app}/notifications/{id}/deliveries", .read, audit: .tokensRead)
    package static let explainNotification = APIRoute(.get, "/v1/apps/{app}/notifications/{id}/why", .read)
}

extension Resource {
    package static let notificationReading = Resource(
        "Finding notifications", "Lists of notifications, and what became of each copy.",
        [listNotifications, listDeliveries, explain])

    private static let listNotifications = Operation(
        .listNotifications, "listNotifications", "An app's notifications, newest first, page by page",
        """
        A page looks at no more than 5000 notifications: a filter that few pass gives short pages, even empty ones, with a `next_cursor`. \
        A `user`'s are those addressed to them by name, or to a device while they were signed in on it, and those of which a receipt is \
        kept of a delivery to such a device.
        """,
        parameters: [
            .query("state", .notificationState, "Only in this state."), .query("user", .user, "Only this user's."),
            .query("since", .time, "Only accepted at this moment or later."), .query("until", .time, "Only accepted before this moment."),
        ] + Parameter.page,
        answers: [Answer(200, "One page.", .json(NotificationSummary.page))], problems: ProblemCode.page + [.invalidTime])

    private static let listDeliveries = Operation(
        .listDeliveries, "listDeliveries", "What became of a notification, device by device, page by page",
        """
        Every delivery where `receipts` is `all`; those that failed, or were tried more than once, where it is `failures`. One that was \
        not tried yet is shown with the device that has its token now. A page looks at no more than 5000 deliveries.
        """,
        parameters: [
            .query("state", .words(DeliveryList.State.names), "Only in this state."),
            .query("reason", .string(256).example("Unregistered"), "Only with this reason: APNs' word, or ours."),
            .query("installation", .uuid, "Only to this installation."), Parameter.tokens,
        ] + Parameter.page,
        answers: [Answer(200, "One page, in an order that never changes.", .json(DeliveryList.hints))],
        problems: ProblemCode.page + [.invalidID])

    private static let explain = Operation(
        .explainNotification, "explainNotification", "Why a notification reached a user, or did not",
        """
        What happened for that user, in order, from the match to Apple's answer. `unknown`: it was sent and no answer came, so it may \
        have arrived. What was not stored is said to be `not_recorded`; what is judged by the registry as it is now says so.
        """,
        parameters: [.query("user", .user, "Whose devices.", isRequired: true)],
        answers: [Answer(200, "A conclusion, one sentence, and every step.", .json(Explanation.response))],
        problems: [.outOfRange])
}
