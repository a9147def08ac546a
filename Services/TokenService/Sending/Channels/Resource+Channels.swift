import HTTPTypes
import PushModel
package import TokenServiceApps
import TokenServiceKit

extension APIRoute {
    package static let openChannel = APIRoute(.put, "/v1/apps/{app}/channels/{channel}", .send)
    package static let broadcast = APIRoute(.post, "/v1/apps/{app}/channels/{channel}/broadcasts", .send)
    package static let readChannel = APIRoute(.get, "/v1/apps/{app}/channels/{channel}", .read)
    package static let listChannels = APIRoute(.get, "/v1/apps/{app}/channels", .read)
    package static let deleteChannel = APIRoute(.delete, "/v1/apps/{app}/channels/{channel}", .send)
    package static let deleteForeignChannel = APIRoute(.delete, "/v1/apps/{app}/channels", .send)
}

extension Resource {
    package static let channels = Resource(
        "Channels",
        """
        Broadcast channels: one push to a channel reaches every Live Activity that follows it. A channel has a name that the backend chooses, and an id \
        that Apple chooses. Dispatchers make the requests to Apple, so a change may take longer than its call: the answer is 202 then.
        """,
        [open, broadcast, read, list, delete, deleteForeign])

    private static let open = Operation(
        .openChannel, "openChannel", "Create a channel, or take over one that exists at Apple",
        """
        Idempotent. Waits up to five seconds for Apple. With `storage` Apple creates a channel; with `channel_id` the name stands for a channel that Apple \
        has. A channel that failed is asked for again.
        """,
        request: .json(ChannelRequest.request),
        answers: [
            Answer(200, "It is open, and was requested before.", .json(ShownChannel.response)),
            Answer(201, "It is open now.", .json(ShownChannel.response)),
            Answer(202, "Apple has not answered yet; repeat the request, or read the channel.", .json(ShownChannel.response)),
        ],
        problems: [.channelDiffers, .channelDeleting, .channelLost, .channelLimit, .channelRefused])

    private static let broadcast = Operation(
        .broadcast, "broadcast", "Update or end the Live Activities that follow a channel",
        """
        One request to APNs, however many devices follow the channel. It is a notification with one delivery, whose installation is the nil UUID: read, \
        cancel and follow it as any other. Broadcasts of a channel go one after another, a second apart; of those that wait the newest is sent, and \
        the others end as `cancelled`.
        """,
        parameters: Resource.sendParameters, request: .json(NotificationRequest.broadcastSchema), answers: [Resource.accepted],
        problems: Resource.sendProblems.filter { ![.activityExists, .activityNotSingle].contains($0) } + [.channelNotOpen])

    private static let read = Operation(
        .readChannel, "readChannel", "One channel, and how many Live Activities follow it",
        answers: [Answer(200, "The channel.", .json(ShownChannel.response))])

    private static let list = Operation(
        .listChannels, "listChannels", "An app's channels, page by page", "Also those that other programs made, which have no name.",
        parameters: Parameter.page + [
            .query("state", .words(BroadcastChannel.State.self), "Only channels in this state."),
            .query("environment", .words(APNsEnvironment.self), "Only channels of this environment."),
        ],
        answers: [Answer(200, "One page, the oldest first.", .json(ShownChannel.page))], problems: ProblemCode.page)

    private static let delete = Operation(
        .deleteChannel, "deleteChannel", "Delete a channel",
        "Idempotent. Apple never gives its id again. Waits up to five seconds for Apple; until Apple has deleted it, the channel is `deleting`.",
        parameters: [.query("force", .words(Switch.self), "`true`: although Live Activities follow it.")],
        answers: [
            Answer(202, "Apple has not deleted it yet.", .json(ShownChannel.response)), Answer(204, "There is no such channel now."),
        ],
        problems: [.channelInUse, .unsupportedValue])

    private static let deleteForeign = Operation(
        .deleteForeignChannel, "deleteForeignChannel", "Delete a channel that has no name here",
        "A channel with a name is deleted by its name.",
        parameters: [
            .query("channel_id", .channelID, "Apple's id, percent-encoded.", isRequired: true),
            .query("environment", .words(APNsEnvironment.self), "Where it is.", isRequired: true),
        ],
        answers: [
            Answer(202, "Apple has not deleted it yet.", .json(ShownChannel.response)), Answer(204, "There is no such channel now."),
        ],
        problems: [.unsupportedValue])
}
