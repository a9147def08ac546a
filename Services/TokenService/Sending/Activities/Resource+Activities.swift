import HTTPTypes
import PushModel
package import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry

extension APIRoute {
    package static let reportActivity = APIRoute(
        .put, "/v1/apps/{app}/installations/{id}/activities/{activity}", .devices, forDevices: true)
    package static let endActivity = APIRoute(
        .delete, "/v1/apps/{app}/installations/{id}/activities/{activity}", .devices, forDevices: true)
    package static let listActivities = APIRoute(.get, "/v1/apps/{app}/activities", .read)
    package static let readLiveActivity = APIRoute(.get, "/v1/apps/{app}/activities/{activity}", .read)
}

extension Resource {
    package static let activities = Resource(
        "Live Activities", "What the platform follows of each: whose it is, its state, and whether an update waits.", [list, read])

    private static let list = Operation(
        .listActivities, "listLiveActivities", "An app's Live Activities, page by page",
        """
        Those that started within the last seven days, by owner and id. A page looks at no more than 5000 of them: a `state` that few have \
        gives short pages, even empty ones, with a `next_cursor`.
        """,
        parameters: Parameter.page + [
            .query("user", .user, "Of this user."), .query("state", .words(ActivityRecord.State.self), "In this state."),
        ],
        answers: [Answer(200, "One page.", .json(ActivityRecord.page))], problems: ProblemCode.page + [.unsupportedValue, .outOfRange])

    private static let read = Operation(
        .readLiveActivity, "readLiveActivity", "One Live Activity",
        "The query says whose it is: others may have an activity of the same id. Exactly one of the two is given.",
        parameters: [.query("user", .user, "Of this user."), .query("installation", .uuid, "Of this installation, which has no user.")],
        answers: [Answer(200, "As it is now.", .json(ActivityRecord.response))], problems: [.invalidID, .outOfRange])
}

/// Among those of the installations.
extension Operation {
    package static let reportActivity = Operation(
        .reportActivity, "reportActivity", "Report the update token of a Live Activity",
        """
        At the activity's start, and whenever iOS gives it another token. Activities do not take each other's place: each has a token of its \
        own. An update that waited for the token goes. If the activity belongs to another user, or is over, it ends on this device.
        """,
        request: .json(ActivityReport.request), answers: [Answer(200, "The installation as it is now.", .json(InstallationRecord.hints))],
        problems: [.ownerMismatch, .activityOver, .tooManyChanges])

    package static let endActivity = Operation(
        .endActivity, "endActivity", "Report that a Live Activity is over", "Idempotent. Its token is retired.",
        answers: [Answer(204, "Nothing is sent to it any more.")], problems: [.tooManyChanges])
}
