import PushModel

extension Resource {
    static let activities = Resource(
        "Live Activities", "What the platform follows of each: whose it is, its state, and whether an update waits.", [list, read])

    private static let list = Operation(
        .listActivities, "listLiveActivities", "An app's Live Activities, page by page",
        """
        Those that started within the last seven days, by owner and id. A page looks at no more than 5000 of them: a `state` that few have \
        gives short pages, even empty ones, with a `next_cursor`.
        """,
        parameters: Parameter.page + [
            .query("user", .user, "Of this user."), .query("state", .words(ActivityRecord.State.self), "In this state."),
        ],
        answers: [Answer(200, "One page.", .json(ActivityRecord.page))], problems: ProblemCode.page + [.unsupportedValue, .outOfRange])

    private static let read = Operation(
        .readLiveActivity, "readLiveActivity", "One Live Activity",
        "The query says whose it is: others may have an activity of the same id. Exactly one of the two is given.",
        parameters: [.query("user", .user, "Of this user."), .query("installation", .uuid, "Of this installation, which has no user.")],
        answers: [Answer(200, "As it is now.", .json(ActivityRecord.response))], problems: [.invalidID, .outOfRange])
}
