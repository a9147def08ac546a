import HTTPTypes
import PushModel
package import TokenServiceApps
import TokenServiceKit

extension APIRoute {
    package static let listDeadLetters = APIRoute(.get, "/v1/admin/dead-letters", .admin)
    package static let readDeadLetter = APIRoute(.get, "/v1/admin/dead-letters/{id}", .admin)
    package static let replayDeadLetters = APIRoute(.post, "/v1/admin/dead-letters/replay", .admin, audit: .deadLettersReplayed)
    package static let dropDeadLetters = APIRoute(.post, "/v1/admin/dead-letters/drop", .admin, audit: .deadLettersDropped)
}

extension Resource {
    package static let deadLetters = Resource(
        "Dead letters",
        "Jobs that were given up, and messages that no service could read. They wait in the broker until they are replayed or dropped.",
        [list, read, replay, drop])

    private static let busy: [ProblemCode] = [.deadLettersBusy, .brokerUnavailable]

    private static let list = Operation(
        .listDeadLetters, "listDeadLetters", "What was given up, and how many of what",
        "Looks at the oldest 20,000. Nothing is taken out of its place.",
        parameters: [
            .query("limit", .integer(1...1000).standard(100), "Letters to show."), .query("app", .slug, "Of this app."),
            .query("reason", DeadLetter.reason, "Given up for this reason."), .query("lane", .words(Lane.self), "Of this lane."),
            .query("notification", .uuid, "Of this notification."),
        ], answers: [Answer(200, "Counts of all that the filters meet, and the oldest of them.", .json(DeadLetterService.list))],
        problems: [.unsupportedValue, .outOfRange, .invalidID] + busy)

    private static let read = Operation(
        .readDeadLetter, "readDeadLetter", "One dead letter", "With its job, without payload and whole tokens.",
        answers: [Answer(200, "The letter.", .json(DeadLetter.inFull))], problems: [.notFound] + busy)

    private static let replay = Operation(
        .replayDeadLetters, "replayDeadLetters", "Send again what was given up",
        """
        Every delivery is resolved anew: it goes to the device only where the user it was for is still signed in, and to the token that the \
        installation has now; under the same id, so that a copy that arrived after all is replaced. At most 500 letters a call; repeatable.
        """,
        request: .json(DeadLetterFilter.replay), answers: [Answer(200, "What became of each.", .json(DeadLetterService.replayed))],
        problems: busy)

    private static let drop = Operation(
        .dropDeadLetters, "dropDeadLetters", "Drop dead letters for good", "At most 500 a call.", request: .json(DeadLetterFilter.request),
        answers: [Answer(200, "Dropped.", .json(DeadLetterService.dropped))], problems: busy)

}
