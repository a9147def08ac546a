extension Resource {
    static let users = Resource(
        "Users", "Everywhere that somebody is signed in.", operations: [list, logOut],
        schemas: [
            "UserLogout": .request(.omissible("except", .uuid, "The installation that stays signed in.")),
            "UserSignOut": .answer(.required("signed_out", .count, "How many installations."), .required("fence", .fence)),
        ])

    private static let list = Operation(
        .listUserInstallations, "listUserInstallations", "A user's installations, page by page",
        parameters: Parameter.installationFilters, answers: [Answer(200, "One page, by id.", .json("Installations"))],
        problems: ProblemCode.page + [.invalidTime])

    private static let logOut = Operation(
        .logOutUser, "logOutUser", "Sign a user out everywhere, or everywhere else", "Idempotent.",
        request: .json("UserLogout", isRequired: false), answers: [Answer(200, "Signed out.", .json("UserSignOut"))])
}
