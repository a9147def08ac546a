import HTTPTypes
import Hummingbird
import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit

/// `/v1/apps/{app}/channels`
package struct ChannelsController: Sendable {
    package let channels: ChannelRegistry

    package init(channels: ChannelRegistry) {
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
