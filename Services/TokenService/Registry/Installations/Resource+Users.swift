import HTTPTypes
package import TokenServiceApps
import TokenServiceKit

extension APIRoute {
    package static let listUserInstallations = APIRoute(
        .get, "/v1/apps/{app}/users/{user}/installations", .read, .devices, audit: .tokensRead)
    package static let logOutUser = APIRoute(.post, "/v1/apps/{app}/users/{user}/logout", .devices)
    package static let setQuietHours = APIRoute(.put, "/v1/apps/{app}/users/{user}/quiet-hours", .devices)
    package static let readQuietHours = APIRoute(.get, "/v1/apps/{app}/users/{user}/quiet-hours", .read, .devices)
    package static let removeQuietHours = APIRoute(.delete, "/v1/apps/{app}/users/{user}/quiet-hours", .devices)
}

extension Resource {
    package static let users = Resource(
        "Users", "All installations on which a user is signed in.", [list, logOut, setQuietHours, readQuietHours, removeQuietHours])

    private static let list = Operation(
        .listUserInstallations, "listUserInstallations", "A user's installations, page by page",
        parameters: Parameter.installationFilters,
        answers: [
            Answer(
                200, "One page, by id. At 1 MiB of JSON it ends early, with a `next_cursor`.", .json(InstallationRecord.pageHints))
        ],
        problems: ProblemCode.page + [.invalidTime])

    private static let logOut = Operation(
        .logOutUser, "logOutUser", "Sign a user out everywhere, or everywhere else", "Idempotent.",
        request: .json(SignOut.ofUser, isRequired: false), answers: [Answer(200, "Signed out.", .json(SignOut.userResponse))])

    private static let setQuietHours = Operation(
        .setQuietHours, "setQuietHours", "Say when a user does not want to be disturbed",
        """
        By the clock where each device is; UTC where its time zone is not known. What comes meanwhile waits until the end, or until it expires; \
        `urgent` notifications do not wait. Concerns what is sent from now on. The user need not be signed in anywhere.
        """,
        request: .json(QuietHours.request), answers: [Answer(200, "Set, whatever was there before.", .json(QuietHours.response))])

    private static let readQuietHours = Operation(
        .readQuietHours, "readQuietHours", "When a user does not want to be disturbed",
        answers: [Answer(200, "Then; 404 where nothing was said.", .json(QuietHours.response))])

    private static let removeQuietHours = Operation(
        .removeQuietHours, "removeQuietHours", "Let a user be disturbed at any time", "Idempotent. What waits already goes on waiting.",
        answers: [Answer(204, "There are none now.")])
}
