extension Resource {
    static let keys = Resource(
        "Keys", "API keys. Only a digest of a key is stored; the key itself is shown once, when it is made.",
        operations: [create, list, rotate, revoke],
        schemas: [
            "NewKey": newKey, "Key": key, "Keys": .answer(.required("keys", .array(.reference("Key")))), "KeyRotation": rotation,
        ])

    private static let create = Operation(
        .createKey, "createKey", "Make a key", "The answer is the only place where the key is shown.",
        request: .json("NewKey"), answers: [Answer(201, "Made.", .json("Key"))])

    private static let list = Operation(
        .listKeys, "listKeys", "All keys", "Without their secrets.", answers: [Answer(200, "By age, the oldest first.", .json("Keys"))])

    private static let rotate = Operation(
        .rotateKey, "rotateKey", "Replace a key", "Makes a key with the same rights; both live until the older one ends.",
        request: .json("KeyRotation", isRequired: false), answers: [Answer(201, "Made.", .json("Key"))],
        problems: [.notFound])

    private static let revoke = Operation(
        .revokeKey, "revokeKey", "Revoke a key", "At once here; other instances notice within five seconds.",
        answers: [Answer(204, "It is over.")], problems: [.notFound])

    private static let scopes = JSONSchema.array(.words(Scope.self), minimum: 1, maximum: 4)
        .described("What the key may do; no scope includes another.").example(.texts(["devices", "send"]))

    private static let newKey = JSONSchema.request(
        .omissible("app", .slug, "The app that the key is bound to; null for all."),
        .required("name", .string(100).example("backend of the shop")), .required("scopes", scopes),
        .omissible("expires_at", .time, "When the key ends; null for never."))

    private static let key = JSONSchema.answer(
        .required("id", .keyID),
        .optional(
            "key",
            .string(pattern: "^psh_[0-9a-f]{16}_[0-9a-f]{48}$").example(.text("psh_0123456789abcdef_" + String(repeating: "0", count: 48))),
            "The key itself; only in the answer that made it."),
        .required("app", .slug.orNull, "The app that it is bound to; null for all."),
        .required("name", .string(100).example("backend of the shop")),
        .required("scopes", scopes), .required("created_at", .time), .optional("expires_at", .time), .optional("revoked_at", .time),
        .optional("last_used_at", .time, "Exact to the minute."))

    private static let rotation = JSONSchema.request(
        .omissible("overlap_seconds", .integer(0...31_536_000), "How long the older key lives on."),
        .omissible("expires_at", .time, "When the new key ends."))
}
