extension Resource {
    static let keys = Resource(
        "Keys", "API keys. Only a digest of a key is stored; the key itself is shown once, when it is made.",
        operations: [create, list, rotate, revoke],
        schemas: [
            "NewKey": newKey, "Key": key, "Keys": .answer(.required("keys", .array(.reference("Key")))), "KeyRotation": rotation,
            "RotatedKey": rotatedKey,
        ])

    private static let create = Operation(
        .createKey, "createKey", "Make a key", "The answer is the only place where the key is shown.",
        request: .json("NewKey"), answers: [Answer(201, "Made.", .json("Key"))])

    private static let list = Operation(
        .listKeys, "listKeys", "All keys", "Without their secrets.", answers: [Answer(200, "By age, the oldest first.", .json("Keys"))])

    private static let rotate = Operation(
        .rotateKey, "rotateKey", "Replace a key", "Makes a key with the same rights; both live until the older one ends.",
        request: .json("KeyRotation", isRequired: false),
        answers: [Answer(201, "Made. The older key is in `previous`.", .json("RotatedKey"))],
        problems: [.notFound, .keyNotLive, .keyAlreadyRotated])

    private static let revoke = Operation(
        .revokeKey, "revokeKey", "Revoke a key", "At once here; other instances notice within five seconds.",
        answers: [Answer(204, "It is over.")], problems: [.notFound])

    private static let scopes = JSONSchema.array(.words(Scope.self), minimum: 1, maximum: 4).unique
        .described("What the key may do; no scope includes another.").example(.texts(["devices", "send"]))

    private static let rate = JSONSchema.integer(1...1_000_000)
    private static let secret = JSONSchema.string(pattern: "^psh_[0-9a-f]{16}_[0-9a-f]{48}$")
        .example(.text("psh_0123456789abcdef_" + String(repeating: "0", count: 48)))

    private static let newKey = JSONSchema.request(
        .omissible("app", .slug, "The app that the key is bound to; null for all."),
        .required("name", .string(100).example("backend of the shop")), .required("scopes", scopes),
        .omissible("expires_at", .time, "When the key ends; null for never."),
        .omissible("requests_per_second", rate, "Instead of the service's own limit, of each instance."))

    private static let keyFields: [JSONSchema.Field] = [
        .required("id", .keyID), .optional("key", secret, "The key itself; only in the answer that made it."),
        .required("app", .slug.orNull, "The app that it is bound to; null for all."),
        .required("name", .string(100).example("backend of the shop")), .required("scopes", scopes),
        .required(
            "state", .words(["live", "expiring", "expired", "revoked"]), "`expiring`: live, and over within thirty days."),
        .optional("requests_per_second", rate, "Its own limit, where it has one."),
        .optional("rotated_from", .keyID, "The key that it replaces."), .required("created_at", .time), .optional("expires_at", .time),
        .optional("revoked_at", .time), .optional("last_used_at", .time, "Exact to the minute."),
    ]

    private static let key = JSONSchema(.object(keyFields, isClosed: false))
    private static let rotatedKey = JSONSchema(
        .object(keyFields + [.required("previous", .reference("Key"), "The older key, as it is now.")], isClosed: false))

    private static let rotation = JSONSchema.request(
        .omissible("overlap_seconds", .integer(0...2_592_000).standard(86_400), "How long the older key lives on, at most."),
        .omissible("expires_at", .time, "When the new key ends; null for never."))
}
