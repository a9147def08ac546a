extension Resource {
    static let installations = Resource(
        "Installations", "One install of an app on one device, with its tokens and whoever is signed in.",
        operations: [register, change, read, list, history, logOut, deregister],
        schemas: [
            "Registration": registration, "NewToken": newToken, "InstallationChange": changeBody, "Installation": installation,
            "Token": token, "Installations": page, "ExpectedOwner": expectedOwner, "SignOut": signOut, "History": historyPage,
            "HistoryEntry": historyEntry, "TokenName": tokenName,
        ])

    private static let register = Operation(
        .register, "registerInstallation", "Register: the full state of one installation",
        """
        Idempotent. Tokens that the list no longer names are retired; a token that another installation holds moves here; \
        another user than before ends everything that is queued for the previous one.
        """,
        parameters: [ifMatch], request: .json("Registration"),
        answers: [
            Answer(201, "Registered.", .json("Installation"), headers: [entityTag]),
            Answer(200, "It was registered before.", .json("Installation"), headers: [entityTag]),
        ], problems: [.ownerMismatch, .invalidEntityTag, .preconditionFailed])

    private static let change = Operation(
        .change, "changeInstallation", "Change single fields", "A merge patch (RFC 7396): null removes, what is not named stays.",
        parameters: [ifMatch],
        request: .mergePatch("InstallationChange"),
        answers: [Answer(200, "The installation as it is now.", .json("Installation"), headers: [entityTag])],
        problems: [.ownerMismatch, .invalidEntityTag, .preconditionFailed])

    private static let ifMatch = Parameter.header(
        "If-Match", .string().example("\"c2hvcC1hZGE\""),
        "The `ETag` that the change is meant for, or `*` for any registered one: else 412.")
    private static let entityTag = Answer.Header.always(
        "ETag", .string().example("\"c2hvcC1hZGE\""), "Of what callers may change; a mere refresh keeps it.")

    private static let read = Operation(
        .readInstallation, "readInstallation", "One installation", parameters: [Parameter.tokens, Parameter.ifNoneMatch],
        answers: [
            Answer(200, "The installation.", .json("Installation"), headers: [entityTag]),
            Answer(304, "`If-None-Match` names its state.", headers: [entityTag]),
        ], problems: ProblemCode.query)

    private static let list = Operation(
        .listInstallations, "listInstallations", "An app's installations, page by page", parameters: Parameter.installationFilters,
        answers: [Answer(200, "One page, by id.", .json("Installations"))], problems: ProblemCode.page + [.invalidTime])

    private static let history = Operation(
        .readHistory, "readInstallationHistory", "What happened to an installation, and why",
        "Answers “why did this user stop getting pushes”: `explanation` in one sentence, the entries in detail.",
        parameters: Parameter.page + [.query("order", .words(["desc", "asc"]).standard("desc"), "`desc`: the newest first.")],
        answers: [Answer(200, "One page.", .json("History"))], problems: ProblemCode.page)

    private static let logOut = Operation(
        .logOut, "logOutInstallation", "Sign out whoever is signed in", "Idempotent; also succeeds where there is nothing to do.",
        request: .json("ExpectedOwner", isRequired: false), answers: [Answer(200, "Nobody is signed in.", .json("SignOut"))],
        problems: [.ownerMismatch])

    private static let deregister = Operation(
        .deregister, "deregisterInstallation", "Deregister an installation",
        "Signs out, retires its tokens, forgets what it told. Idempotent.",
        parameters: [.query("expected_user", user, "Refuse with 409 unless this user is signed in now, or nobody.")],
        answers: [Answer(204, "It is gone.")], problems: ProblemCode.strictQuery + [.outOfRange, .ownerMismatch])
}

extension Resource {
    static let user = JSONSchema.string(256).example("ada")

    private static let profile: [JSONSchema.Field] = [
        .omissible("locale", .string(64).example("de_DE")), .omissible("time_zone", .string(64).example("Europe/Berlin")),
        .omissible("app_version", .string(64).example("4.2.0")), .omissible("os_version", .string(64).example("26.1")),
        .omissible("device_model", .string(64).example("iPhone18,1")),
        .omissible("tags", .array(.string(64).example("beta"), maximum: 100)),
    ]

    /// Also of the items and lines of bulk registrations.
    static let registrationFields: [JSONSchema.Field] =
        [
            .required("user", user.orNull, "Who is signed in; null for nobody."),
            .required(
                "tokens", .array(.reference("NewToken"), maximum: 20).unique, "All its tokens, at most one per environment and purpose."),
            .omissible("replaces", .deviceToken, "A token of an earlier installation of the same device, which is over."),
            .optional("expected_user", user.orNull, "Refuse with 409 unless this user, or nobody, is signed in now."),
        ] + profile

    private static let registration = JSONSchema(.object(registrationFields, isClosed: true))

    private static let newToken = JSONSchema.request(
        .required("token", .deviceToken), .omissible("environment", .environment.standard("production")),
        .omissible("purpose", .purpose.standard("alert")))

    private static let changeBody = JSONSchema(
        .object(
            [
                .optional("user", user.orNull, "Who is signed in; null for nobody."),
                .optional("tokens", .array(.reference("NewToken"), maximum: 20).unique, "All its tokens, as in a registration."),
                .omissible("replaces", .deviceToken, "A token of an earlier installation of the same device, which is over."),
                .optional("expected_user", user.orNull, "Refuse with 409 unless this user, or nobody, is signed in now."),
            ] + profile, isClosed: true))

    private static let ownerEpoch = """
        Starts at 1. Grows by one with every change of the user, when the installation is deregistered, and when another user takes its token: \
        at once, or in the four days after a move of the token to another installation of its own user. Nothing of an earlier epoch is sent.
        """

    private static let installation = JSONSchema.answer(
        .required("app", .slug), .required("id", .uuid), .required("user", user.orNull, "Who is signed in; null for nobody."),
        .required("owner_epoch", .count, ownerEpoch),
        .required("tokens", .array(.reference("Token"))),
        .optional("throttled_until", .time, "APNs asked to leave it alone until then."), .required("registered_at", .time),
        .required("created_at", .time), .optional("locale", .string(64).example("de_DE")),
        .optional("time_zone", .string(64).example("Europe/Berlin")), .optional("app_version", .string(64).example("4.2.0")),
        .optional("os_version", .string(64).example("26.1")), .optional("device_model", .string(64).example("iPhone18,1")),
        .required("tags", .array(.string(64).example("beta"))), .required("fence", .fence))

    private static let token = JSONSchema.answer(
        .optional("token", .deviceToken, "Only where `tokens=full` was asked for."), .required("hint", .tokenHint),
        .required("environment", .environment), .required("purpose", .purpose),
        .required("state", .tokenState), .required("registered_at", .time), .optional("retired_at", .time),
        .optional("retired_reason", .retiredReason))

    private static let page = JSONSchema.answer(
        .required("installations", .array(.reference("Installation"))), .required("next_cursor", .nextCursor))

    private static let expectedOwner = JSONSchema.request(
        .optional("expected_user", user.orNull, "Refuse with 409 unless this user is signed in now, or nobody."))

    private static let signOut = JSONSchema.answer(
        .required("id", .uuid.orNull, "Null where a token named no installation."),
        .required("signed_out", .boolean, "False where nobody was signed in."), .required("owner_epoch", .count), .required("fence", .fence)
    )

    private static let historyPage = JSONSchema.answer(
        .required("app", .slug), .required("id", .uuid),
        .required("reachable", .boolean, "Whether a notification to its user would be sent to it now."),
        .required("reachable_purposes", .array(.purpose)),
        .required("explanation", .string().example("It can be reached: somebody is signed in and it has an active token.")),
        .required("entries", .array(.reference("HistoryEntry"))), .required("next_cursor", .nextCursor))

    private static let historyEntry = JSONSchema.answer(
        .required("at", .time), .required("event", .words(HistoryEntry.Event.self)),
        .optional("user", user, "Who was, or became, signed in."), .optional("owner_epoch", .count),
        .optional("token", .reference("TokenName")),
        .optional("other_installation", .uuid, "Where a token came from or went to."),
        .optional("status", .integer.example(410), "APNs' HTTP status."), .optional("reason", .string().example("Unregistered")),
        .optional("apns_timestamp", .time, "Since when APNs has known that the token is over."), .optional("delivery", .uuid))

    private static let tokenName = JSONSchema.answer(
        .required("hint", .tokenHint), .required("environment", .environment), .required("purpose", .purpose))
}

extension JSONSchema {
    static let deviceToken = JSONSchema(.string(Text(pattern: "^([0-9a-fA-F]{2}){1,256}$")))
        .example(.text(String(repeating: "0a1b2c3d", count: 8))).described("Hex, as the device got it from APNs.")
    static let tokenHint = JSONSchema.string().example("…2c3d4e").described("The token's last six digits.")
    static let tokenState = JSONSchema.words(["active", "retired"])
    static let retiredReason = JSONSchema.words(["replaced", "removed", "deregistered", "gone", "rejected", "stale"])
    static let nextCursor = JSONSchema.string().orNull.example("AAAB").described("For the next page; null where this is the last.")
    static let fence = JSONSchema.words(["effective", "pending", "none"]).described(
        "`effective`: every dispatcher can know that the previous owner's epoch is over; `pending`: the broker has not confirmed it yet; `none`: there never was one here. It speaks of this installation: that of one which a token left is told by the answer to the request that moved it, not by its repetition."
    )
}

extension Parameter {
    static let page: [Parameter] = [
        .query("limit", .integer(1...1000).standard(100), "How many at most."),
        .query("cursor", .string(), "The `next_cursor` of the page before."),
    ]
    static let installationFilters: [Parameter] =
        [
            .query(
                "state", .words(["signed_in", "signed_out", "throttled", "stale", "unreachable"]),
                "`unreachable`: without an active token."),
            .query("tag", .string(64), "With this tag."),
            .query("seen_after", .time, "Registered at or after."),
            .query("seen_before", .time, "Registered before."),
            tokens,
        ] + page
    static let ifNoneMatch = Parameter.header(
        "If-None-Match", .string(), "The `ETag` of an earlier answer: 304 where nothing changed.")
    static let tokens = Parameter.query(
        "tokens", .words(["hints", "full"]).standard("hints"), "`full` shows whole tokens and needs the scope devices.")
}
