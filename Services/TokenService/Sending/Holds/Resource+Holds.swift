import HTTPTypes
import PushModel
package import TokenServiceApps
import TokenServiceKit

extension APIRoute {
    package static let setHold = APIRoute(.post, "/v1/apps/{app}/holds", .admin, audit: .holdSet)
    package static let listHolds = APIRoute(.get, "/v1/apps/{app}/holds", .read, .admin)
    package static let readHold = APIRoute(.get, "/v1/apps/{app}/holds/{id}", .read, .admin)
    package static let liftHold = APIRoute(.delete, "/v1/apps/{app}/holds/{id}", .admin, audit: .holdLifted)
    package static let setGlobalHold = APIRoute(.post, "/v1/admin/holds", .admin, audit: .holdSet)
    package static let listAllHolds = APIRoute(.get, "/v1/admin/holds", .admin)
    package static let readAnyHold = APIRoute(.get, "/v1/admin/holds/{id}", .admin)
    package static let liftAnyHold = APIRoute(.delete, "/v1/admin/holds/{id}", .admin, audit: .holdLifted)
}

extension Resource {
    package static let holds = Resource(
        "Holds",
        """
        Stopping what matches, in order to go on later: an app, one of its notifications, a lane. What is held is kept: it waits until the hold is lifted or ends, \
        and expires when it would have. Holds add up: what two of them keep waits for both. Nothing that matches leaves from one second after \
        `fence` is `effective`.
        """,
        [set, list, read, lift, setGlobal, listAll, readAny, liftAny])

    private static let filters =
        Parameter.page + [.query("state", .words(Hold.State.self), "Only those; left out: all that there ever were.")]
    private static let location = Answer.Header.always("Location", .string(), "Where it can be read and lifted.")

    private static let set = Operation(
        .setHold, "setHold", "Hold an app, one of its lanes or one of its notifications", "Two calls set two holds: each has to be lifted.",
        request: .json(HoldRequest.ofApp), answers: [Answer(201, "Set.", .json(Hold.response), headers: [location])],
        problems: [.tooManyHolds])

    private static let list = Operation(
        .listHolds, "listHolds", "An app's holds, and those over every app, the newest first", parameters: filters,
        answers: [Answer(200, "One page.", .json(Hold.page))], problems: ProblemCode.page)

    private static let read = Operation(
        .readHold, "readHold", "One hold of an app, or over every app", answers: [Answer(200, "The hold.", .json(Hold.response))])

    private static let lift = Operation(
        .liftHold, "liftHold", "Lift a hold of an app",
        """
        What waits is sent: in PostgreSQL at once, in the broker within the wait that it is in (seconds where little is held, at most ten minutes). Idempotent; \
        the hold stays to be read. One over every app is lifted where it was set.
        """,
        answers: [Answer(200, "Lifted, or over before.", .json(Hold.response))])

    private static let setGlobal = Operation(
        .setGlobalHold, "setGlobalHold", "Hold a lane of every app, or everything", request: .json(HoldRequest.ofEveryApp),
        answers: [Answer(201, "Set.", .json(Hold.response), headers: [location])], problems: [.tooManyHolds])

    private static let listAll = Operation(
        .listAllHolds, "listAllHolds", "Every hold, the newest first", parameters: filters,
        answers: [Answer(200, "One page.", .json(Hold.page))], problems: ProblemCode.page)

    private static let readAny = Operation(
        .readAnyHold, "readAnyHold", "One hold", answers: [Answer(200, "The hold.", .json(Hold.response))], problems: [.notFound])

    private static let liftAny = Operation(
        .liftAnyHold, "liftAnyHold", "Lift any hold", "As for a hold of an app.",
        answers: [Answer(200, "Lifted, or over before.", .json(Hold.response))], problems: [.notFound])
}
