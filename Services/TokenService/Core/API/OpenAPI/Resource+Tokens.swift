extension Resource {
    static let tokens = Resource(
        "Tokens", "For clients that know a device token and nothing else. Tokens travel in bodies, never in URLs.",
        operations: [search, logOut, deregister],
        schemas: [
            "TokenName": .request(
                .required("token", .deviceToken), .omissible("environment", .environment, "Where it is left out: both.")),
            "TokenHolders": .answer(.required("installations", .array(.reference("Installation")))),
        ])

    private static let search = Operation(
        .searchToken, "searchToken", "Which installation holds a token", request: .json("TokenName"),
        answers: [Answer(200, "Those that hold or held it.", .json("TokenHolders"))])

    private static let logOut = Operation(
        .logOutToken, "logOutToken", "Sign out whoever holds a token", "Idempotent; also succeeds for an unknown token.",
        request: .json("TokenName"), answers: [Answer(200, "Nobody is signed in there.", .json("SignOut"))])

    private static let deregister = Operation(
        .deregisterToken, "deregisterToken", "Deregister the installation that holds a token",
        "Idempotent; also succeeds for an unknown token.",
        request: .json("TokenName"), answers: [Answer(204, "It is gone.")])
}
