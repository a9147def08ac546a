import HTTPTypes
import Hummingbird
import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit

/// `/v1/apps/{app}/channels`
package struct ChannelsController: Sendable {
    package let channels: ChannelService

    package init(channels: ChannelService) {
        self.channels = channels
    }

    package func bind(to router: some RouteBinder) {
        router.on(.openChannel, open)
        router.on(.readChannel, read)
        router.on(.listChannels, list)
        router.on(.deleteChannel, delete)
        router.on(.deleteForeignChannel, deleteForeign)
    }

    @Sendable private func open(_ call: APICall) async throws -> Response {
        let (app, name) = try Self.place(call)
        let request = try await call.body().object { body in ChannelRequest(&body, app: app) }
        let (channel, isNew) = try await channels.open(name, request, of: app)
        return Self.answer(channel.state == .creating ? .accepted : isNew ? .created : .ok, channel)
    }

    @Sendable private func read(_ call: APICall) async throws -> Response {
        let (app, name) = try Self.place(call)
        let shown = try await channels.pool.session { session in try ChannelReading(session: session, app: app).find(name) }
        guard let shown else { throw APIError.notFound }
        return JSONAnswer.response(.ok, ShownChannel.response, shown)
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let limit = try PageQuery.limit(call)
        let filter = ChannelReading.Filter(
            state: try call.choice("state", of: BroadcastChannel.State.self),
            environment: try call.choice("environment", of: APNsEnvironment.self))
        let identity = ["channels", "\(app.id)", filter.state?.rawValue, filter.environment?.rawValue]
        let after = try PageQuery.position(call) { text throws(PageCursor.Fault) in try PageCursor.decodeNumber(text, list: identity) }
        let page = try await channels.pool.session { session in
            try ChannelReading(session: session, app: app).page(filter, after: after ?? 0, limit: limit)
        }
        return JSONAnswer.response(
            .ok, ShownChannel.page,
            PageResponse(
                elements: page.channels.map { ShownChannel(channel: $0) },
                nextCursor: page.last.map { PageCursor.encode($0, list: identity) }))
    }

    @Sendable private func delete(_ call: APICall) async throws -> Response {
        let (app, name) = try Self.place(call)
        let force = try call.choice("force", of: Switch.self) == .true
        return Self.removed(try await channels.remove(name, of: app, force: force))
    }

    @Sendable private func deleteForeign(_ call: APICall) async throws -> Response {
        let app = try call.app()
        // A plus that was not written as %2B is a blank in a query, and no id has a blank.
        guard let text = try call.query("channel_id"), let id = ChannelID(text.replacing(" ", with: "+")) else {
            throw APIError.invalid("channel_id", .unsupportedValue, "must be Apple's id of the channel, in base64")
        }
        guard let environment = try call.choice("environment", of: APNsEnvironment.self) else {
            throw APIError.invalid("environment", .unsupportedValue, "must be production or sandbox")
        }
        return Self.removed(try await channels.removeForeign(id, in: environment, of: app))
    }

    private static func place(_ call: APICall) throws -> (app: App, name: String) {
        (try call.app(), try call.channelName())
    }

    private static func removed(_ channel: BroadcastChannel?) -> Response {
        guard let channel else { return JSONAnswer.noContent }
        return answer(.accepted, channel)
    }

    private static func answer(_ status: HTTPResponse.Status, _ channel: BroadcastChannel) -> Response {
        JSONAnswer.response(status, ShownChannel.response, ShownChannel(channel: channel))
    }
}

extension APICall {
    /// The path's.
    func channelName() throws -> String { try name("channel") }
}

/// A parameter of the query that is on or off.
enum Switch: String, CaseIterable {
    case `true`, `false`
}

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
        Broadcast channels: one push to a channel reaches every Live Activity that follows it. A channel has a name that the backend \
        chooses, and an id that Apple chooses. Dispatchers make the requests to Apple, so a change may take longer than its call: the \
        answer is 202 then.
        """,
        [open, broadcast, read, list, delete, deleteForeign])

    private static let open = Operation(
        .openChannel, "openChannel", "Create a channel, or take over one that exists at Apple",
        """
        Idempotent. Waits up to five seconds for Apple. With `storage` Apple creates a channel; with `channel_id` the name stands for a \
        channel that Apple has. A channel that failed is asked for again.
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
        One request to APNs, however many devices follow the channel. It is a notification with one delivery, whose installation is the \
        nil UUID: read, cancel and follow it as any other. Broadcasts of a channel go one after another, a second apart; of those that \
        wait the newest is sent, and the others end as `cancelled`.
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
        """
        Idempotent. Apple never gives its id again. Waits up to five seconds for Apple; until Apple has deleted it, the channel is \
        `deleting`.
        """,
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
