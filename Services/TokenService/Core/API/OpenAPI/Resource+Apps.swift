import PushModel

extension Resource {
    static let apps = Resource(
        "Apps", "An app is a tenant: its devices, users, notifications and keys are its own.",
        operations: [create, list, read, change],
        schemas: [
            "NewApp": newApp, "App": app, "MadeApp": madeApp, "Apps": .answer(.required("apps", .array(.reference("App")))),
            "AppChange": appChange,
        ])

    private static let create = Operation(
        .createApp, "createApp", "Make an app", "The same again answers 200; another one of the same slug 409.",
        request: .json("NewApp"),
        answers: [Answer(201, "Made.", .json("MadeApp")), Answer(200, "It was there, exactly like this.", .json("MadeApp"))],
        problems: [.appDiffers])

    private static let list = Operation(
        .listApps, "listApps", "All apps", answers: [Answer(200, "By slug.", .json("Apps"))])

    private static let read = Operation(
        .readApp, "readApp", "One app", answers: [Answer(200, "The app.", .json("App"))], problems: [.notFound])

    private static let change = Operation(
        .changeApp, "changeApp", "Change an app", "A merge patch (RFC 7396): what the body does not name stays as it is.",
        request: .mergePatch("AppChange"), answers: [Answer(200, "The app as it is now.", .json("App"))],
        problems: [.notFound, .environmentInUse])

    private static let policy = JSONSchema.words(["multi", "single"])
        .described("On how many installations a user may be signed in at once.")
    private static let bundleID = JSONSchema.string(155, pattern: "^[A-Za-z0-9._-]+$").example("com.example.shop")
        .described("The app's bundle id; APNs topics begin with it.")
    private static let environments = JSONSchema.array(.environment, minimum: 1, maximum: 2).unique.described(
        "Which of Apple's environments its tokens are of."
    )
    .example(.texts(["production", "sandbox"]))
    private static let staleAfter = JSONSchema.integer(1...3650)
        .described("After how many days without a registration an installation is stale; null: never.")
    private static let removesStale = JSONSchema.boolean.described("Whether stale installations are removed.")

    private static let eventStream = JSONSchema.array(.words(EventLog.self), maximum: 2).unique
        .described("Which state changes go to the exchange push.outcomes as CloudEvents; webhooks do not need it.")
        .example(.texts(["notifications"]))

    private static let newApp = JSONSchema.request(
        .required("slug", .slug), .required("bundle_id", bundleID), .required("device_policy", policy),
        .required("environments", environments), .omissible("stale_after_days", staleAfter),
        .omissible("removes_stale", removesStale.standard(false)), .optional("event_stream", eventStream))

    private static let app = JSONSchema.answer(properties)
    private static let madeApp = JSONSchema.answer(
        properties + [
            .required(
                "warnings", .array(.answer(.required("code", .words(["no_credential"])), .required("detail", .string(), "For people."))),
                "An environment that no dispatcher has reported a credential for: nothing is sent there.")
        ])
    private static let properties: [JSONSchema.Field] = [
        .required("slug", .slug), .required("bundle_id", bundleID), .required("device_policy", policy),
        .required("environments", environments), .required("stale_after_days", staleAfter.orNull), .required("removes_stale", removesStale),
        .required("event_stream", eventStream),
    ]

    private static let appChange = JSONSchema.request(
        .optional("bundle_id", bundleID), .optional("device_policy", policy), .optional("environments", environments),
        .optional("stale_after_days", staleAfter.orNull), .optional("removes_stale", removesStale),
        .optional("event_stream", eventStream))
}

extension JSONSchema {
    static let environment = JSONSchema.words(APNsEnvironment.self)
    static let purpose = JSONSchema.words(Purpose.self).described("What the token is for; it decides the topic.")
}
