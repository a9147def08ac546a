import StrictJSON

/// What became of a ``ChannelCommand``. A CloudEvents 1.0 event in `push.outcomes`, which may arrive more than once.
package struct ChannelAnswer: Equatable, Sendable {
    package static let currentVersion = 1
    package static let type = "push.dispatcher.channels.v1"
    package static let contentType = "application/cloudevents+json"
    package static let routingKey = "dispatcher.channels"

    package enum Result: String, Sendable, CaseIterable {
        /// APNs did it.
        case done
        /// APNs answered with a status of failure.
        case refused
        /// The request may have left, and no answer came: APNs may have done it.
        case unanswered
        /// The dispatcher made no request, because the command had expired.
        case expired
        /// The dispatcher made no request, because it has no credential for the app in this environment.
        case noCredential = "no_credential"
    }

    package var id: PushID
    /// CloudEvents `source`: `/push/dispatcher/<instance>`.
    package var source: String
    /// UNIX milliseconds.
    package var time: Int64
    /// The id of the command.
    package var command: PushID
    package var app: AppSlug
    package var environment: APNsEnvironment
    package var operation: ChannelOperation
    package var result: Result
    /// APNs' status; nil where it said nothing.
    package var status: Int?
    /// APNs' reason, verbatim, or our own in `snake_case` if APNs was not asked or did not answer.
    package var reason: String?
    /// The channel that was created, read or deleted, as APNs or the command wrote it.
    package var channelID: String?
    /// The storage of a created or read channel.
    package var storage: ChannelStorage?
    /// Every channel of the app in this environment, if the operation was a list.
    package var channels: [String]?

    package init(
        id: PushID, source: String, time: Int64, command: PushID, app: AppSlug, environment: APNsEnvironment, operation: ChannelOperation,
        result: Result, status: Int? = nil, reason: String? = nil, channelID: String? = nil, storage: ChannelStorage? = nil,
        channels: [String]? = nil
    ) {
        self.id = id
        self.source = source
        self.time = time
        self.command = command
        self.app = app
        self.environment = environment
        self.operation = operation
        self.result = result
        self.status = status
        self.reason = reason
        self.channelID = channelID
        self.storage = storage
        self.channels = channels
    }

    package func encoded() -> [UInt8] {
        var writer = JSONWriter()
        writer.cloudEvent(id: id, source: source, type: Self.type, time: time) { writer in
            writer.field("v", Self.currentVersion)
            writer.plainField("command", command.append)
            writer.field("app", app.text)
            writer.field("environment", environment.rawValue)
            writer.field("operation", operation.rawValue)
            writer.field("result", result.rawValue)
            writer.field("status", status)
            writer.field("reason", reason)
            writer.field("channel_id", channelID)
            writer.field("storage", storage?.rawValue)
            if let channels { writer.field("channels", channels) }
        }
        return writer.bytes
    }

    /// - Throws: ``MessageError``, for any bytes that are not an answer of a version up to ``currentVersion``.
    package init(decoding bytes: [UInt8]) throws(MessageError) {
        let event: MessageFields
        // Ten thousand channels, which is Apple's limit, with ids of hundreds of bytes.
        do throws(JSONError) { event = MessageFields(try JSONValue.parse(bytes, maximumBytes: 8 << 20)) } catch {
            throw MessageError(error)
        }
        let data = event["data"]
        try MessageVersion.check(Int(clamping: try data.integer("v")), atMost: Self.currentVersion)
        guard try event.string("type") == Self.type else { throw MessageError(.invalidField("type"), "expected \(Self.type)") }
        self.init(
            id: try event.id("id"), source: try event.string("source"), time: try event.moment("time"), command: try data.id("command"),
            app: try data.app("app"), environment: try data.choice("environment", of: APNsEnvironment.self),
            operation: try data.choice("operation", of: ChannelOperation.self), result: try data.choice("result", of: Result.self),
            status: data.has("status") ? Int(clamping: try data.integer("status")) : nil,
            reason: data.has("reason") ? try data.string("reason") : nil,
            channelID: data.has("channel_id") ? try data.string("channel_id") : nil,
            storage: data.has("storage") ? try data.choice("storage", of: ChannelStorage.self) : nil,
            channels: data.has("channels") ? try data.strings("channels") : nil)
    }
}
