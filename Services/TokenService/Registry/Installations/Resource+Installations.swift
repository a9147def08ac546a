import HTTPTypes
package import TokenServiceApps
import TokenServiceKit

extension APIRoute {
    package static let register = APIRoute(.put, "/v1/apps/{app}/installations/{id}", .devices, forDevices: true)
    package static let change = APIRoute(.patch, "/v1/apps/{app}/installations/{id}", .devices, forDevices: true)
    package static let setTags = APIRoute(.put, "/v1/apps/{app}/installations/{id}/tags", .devices)
    package static let readInstallation = APIRoute(.get, "/v1/apps/{app}/installations/{id}", .read, .devices, audit: .tokensRead)
    package static let listInstallations = APIRoute(.get, "/v1/apps/{app}/installations", .read, .devices, audit: .tokensRead)
    package static let readHistory = APIRoute(.get, "/v1/apps/{app}/installations/{id}/history", .read, .devices)
    package static let logOut = APIRoute(.post, "/v1/apps/{app}/installations/{id}/logout", .devices, forDevices: true)
    package static let deregister = APIRoute(.delete, "/v1/apps/{app}/installations/{id}", .devices, forDevices: true)
    package static let makeDeviceCredential = APIRoute(.post, "/v1/apps/{app}/device-credentials", .devices)
}

extension Resource {
    package static let installations = Resource(
        "Installations", "One install of an app on one device, with its tokens and the signed-in user.",
        [register, change, setTags, read, list, history, logOut, deregister, makeCredential])

    private static let register = Operation(
        .register, "registerInstallation", "Register: the full state of one installation",
        """
        Idempotent. Tokens that the list no longer names are retired, but for those of Live Activities and of the purposes in `keeps`; a \
        token that another installation holds moves here; another user than before ends everything that is queued for the previous one.
        """,
        parameters: [ifMatch], request: .json(Registration.request),
        answers: [
            Answer(201, "Registered.", .json(InstallationRecord.registered), headers: [entityTag]),
            Answer(200, "It was registered before.", .json(InstallationRecord.registered), headers: [entityTag]),
        ], problems: [.ownerMismatch, .invalidEntityTag, .preconditionFailed, .tooManyChanges])

    private static let change = Operation(
        .change, "changeInstallation", "Change single fields", "A merge patch (RFC 7396): null removes, what is not named stays.",
        parameters: [ifMatch],
        request: .mergePatch(InstallationPatch.request),
        answers: [Answer(200, "The installation as it is now.", .json(InstallationRecord.registered), headers: [entityTag])],
        problems: [.ownerMismatch, .invalidEntityTag, .preconditionFailed, .tooManyChanges])

    private static let setTags = Operation(
        .setTags, "setInstallationTags", "Say which tags your backend gives an installation",
        """
        All of them: those that are not named go. No registration changes them, and no device can set them: an app reports its own \
        `app_tags`. They stay when the user changes, and go with a deregistration.
        """,
        parameters: [ifMatch], request: .json(TagAssignment.request),
        answers: [Answer(200, "The installation as it is now.", .json(InstallationRecord.registered), headers: [entityTag])],
        problems: [.invalidEntityTag, .preconditionFailed])

    private static let makeCredential = Operation(
        .makeDeviceCredential, "makeDeviceCredential", "Make a credential for the app on one device",
        """
        For the app's backend, which knows who is signed in: it hands the credential to the app, which registers and signs out its own \
        installation with it (`Authorization: Bearer psd_…`) and can do nothing else. It ends with its time, as soon as another user signs \
        in on the installation, and with a sign-out of its user, there or everywhere, also before it was used. The user must be that of \
        the session in which the app asks, and the installation the session's own: what the app claims of them proves nothing.
        """,
        request: .json(DeviceCredentialClaims.request),
        answers: [Answer(201, "Made. It is stored nowhere.", .json(DeviceCredentialClaims.response))],
        problems: [.deviceCredentialsOff])

    private static let ifMatch = Parameter.header(
        "If-Match", .string().example("\"c2hvcC1hZGE\""),
        "The `ETag` that the change is meant for, or `*` for any registered one: else 412.")
    private static let entityTag = Answer.Header.always(
        "ETag", .string().example("\"c2hvcC1hZGE\""), "Of what callers may change; a mere refresh keeps it.")

    private static let read = Operation(
        .readInstallation, "readInstallation", "One installation", parameters: [Parameter.tokens, Parameter.ifNoneMatch],
        answers: [
            Answer(200, "The installation.", .json(InstallationRecord.hints), headers: [entityTag]),
            Answer(304, "`If-None-Match` names its state.", headers: [entityTag]),
        ], problems: [.unsupportedValue])

    private static let list = Operation(
        .listInstallations, "listInstallations", "An app's installations, page by page", parameters: Parameter.installationFilters,
        answers: [
            Answer(
                200, "One page, by id. At 1 MiB of JSON it ends early, with a `next_cursor`.", .json(InstallationRecord.pageHints))
        ], problems: ProblemCode.page + [.invalidTime])

    private static let history = Operation(
        .readHistory, "readInstallationHistory", "What happened to an installation, and why",
        "Answers “why did this user stop getting pushes”: `explanation` in one sentence, the entries in detail.",
        parameters: Parameter.page + [.query("order", .words(HistoryList.Order.self).standard("desc"), "`desc`: the newest first.")],
        answers: [Answer(200, "One page.", .json(InstallationHistory.response))], problems: ProblemCode.page)

    private static let logOut = Operation(
        .logOut, "logOutInstallation", "Sign out the signed-in user", "Idempotent; also succeeds where there is nothing to do.",
        request: .json(SignOut.request, isRequired: false), answers: [Answer(200, "No user is signed in.", .json(SignOut.response))],
        problems: [.ownerMismatch])

    private static let deregister = Operation(
        .deregister, "deregisterInstallation", "Deregister an installation",
        "Signs out, retires its tokens, forgets what it reported. Idempotent.",
        parameters: [.query("expected_user", .user, "Refuse with 409 unless this user is signed in now, or no user.")],
        answers: [Answer(204, "It is gone.")], problems: [.outOfRange, .ownerMismatch])
}

extension Parameter {
    static let installationFilters: [Parameter] =
        [
            .query(
                "state", .words(InstallationFilter.State.self),
                "`unreachable`: without an active token."),
            .query("permission", .words(ReportedPermission.self), "With this permission; `unknown`: the app has reported none."),
            .query(
                "tag", .string(InstallationTags.maximumWordBytes), "With this tag of the backend; `app:beta`: with the app's tag `beta`."),
            .query("seen_after", .time, "Registered at or after."),
            .query("seen_before", .time, "Registered before."),
            tokens,
        ] + page
    package static let ifNoneMatch = Parameter.header(
        "If-None-Match", .string(), "The `ETag` of an earlier answer: 304 where nothing changed.")
}
