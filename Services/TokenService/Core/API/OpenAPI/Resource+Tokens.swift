extension Resource {
    static let tokens = Resource(
        "Tokens", "For clients that know a device token and nothing else. Tokens travel in bodies, never in URLs.",
        operations: [search, logOut, deregister],
        schemas: [
            "NamedToken": .request(
                .required("token", .deviceToken), .omissible("environment", .environment, "Where it is left out: both.")),
            "NamedTokenOfUser": .request(
                .required("token", .deviceToken), .omissible("environment", .environment, "Where it is left out: both."),
                .optional("expected_user", user.orNull, "Refuse with 409 unless this user is signed in now, or nobody.")),
            "TokenHolders": .answer(
                .required("installations", .array(.reference("Installation"))),
                .required("former_holders", .array(.reference("FormerHolder")))),
            "FormerHolder": .answer(
                .required("id", .uuid, "The installation's."), .required("environment", .environment), .required("purpose", .purpose),
                .required("reason", .words(["moved", "deregistered"])), .required("until", .time),
                .optional("moved_to", .uuid, "Where it went, as far as is known.")),
        ])

    private static let search = Operation(
        .searchToken, "searchToken", "Which installation holds a token, and which did", parameters: [Parameter.tokens],
        request: .json("NamedToken"),
        answers: [Answer(200, "Those that hold it now, and those that once did.", .json("TokenHolders"))], problems: ProblemCode.query)

    private static let logOut = Operation(
        .logOutToken, "logOutToken", "Sign out whoever holds a token", "Idempotent; also succeeds for an unknown token.",
        request: .json("NamedTokenOfUser"), answers: [Answer(200, "Nobody is signed in there.", .json("SignOut"))],
        problems: [.ownerMismatch])

    private static let deregister = Operation(
        .deregisterToken, "deregisterToken", "Deregister the installation that holds a token",
        "Idempotent; also succeeds for an unknown token.",
        request: .json("NamedTokenOfUser"), answers: [Answer(204, "It is gone.")], problems: [.ownerMismatch])
}
