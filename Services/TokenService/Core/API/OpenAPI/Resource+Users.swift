extension Resource {
    static let users = Resource(
        "Users", "Everywhere that somebody is signed in.", operations: [list, logOut, setQuietHours, readQuietHours, removeQuietHours],
        schemas: [
            "UserLogout": .request(.omissible("except", .uuid, "The installation that stays signed in.")),
            "NewQuietHours": .request(
                .required("begins_at", .timeOfDay, "From then on nothing is sent."),
                .required("ends_at", .timeOfDay, "Then it is; another time than `begins_at`, on the next day where it is the earlier one.")),
            "QuietHours": .answer(.required("begins_at", .timeOfDay), .required("ends_at", .timeOfDay)),
            "UserSignOut": .answer(.required("signed_out", .count, "How many installations."), .required("fence", .fence)),
        ])

    private static let list = Operation(
        .listUserInstallations, "listUserInstallations", "A user's installations, page by page",
        parameters: Parameter.installationFilters, answers: [Answer(200, "One page, by id.", .json("Installations"))],
        problems: ProblemCode.page + [.invalidTime])

    private static let logOut = Operation(
        .logOutUser, "logOutUser", "Sign a user out everywhere, or everywhere else", "Idempotent.",
        request: .json("UserLogout", isRequired: false), answers: [Answer(200, "Signed out.", .json("UserSignOut"))])

    private static let setQuietHours = Operation(
        .setQuietHours, "setQuietHours", "Say when a user does not want to be disturbed",
        """
        By the clock where each device is; UTC where its time zone is not known. What comes meanwhile waits until the end, or until it expires; \
        `urgent` notifications do not wait. Concerns what is sent from now on. The user need not be signed in anywhere.
        """,
        request: .json("NewQuietHours"), answers: [Answer(200, "Set, whatever was there before.", .json("QuietHours"))])

    private static let readQuietHours = Operation(
        .readQuietHours, "readQuietHours", "When a user does not want to be disturbed",
        answers: [Answer(200, "Then; 404 where nothing was said.", .json("QuietHours"))])

    private static let removeQuietHours = Operation(
        .removeQuietHours, "removeQuietHours", "Let a user be disturbed at any time", "Idempotent. What waits already goes on waiting.",
        answers: [Answer(204, "There are none now.")])
}

extension JSONSchema {
    static let timeOfDay = JSONSchema(.string(Text(pattern: "^([01][0-9]|2[0-3]):[0-5][0-9]$"))).example("22:00")
}
