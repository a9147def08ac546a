import StrictJSON

/// One request of the token service for a broadcast channel, in `push.commands`. A dispatcher makes it, because only dispatchers have
/// credentials. ``ChannelAnswer`` is its result.
package struct ChannelCommand: Equatable, Sendable {
    package static let currentVersion = 1
    package static let contentType = "application/json"

    package enum Request: Equatable, Sendable {
        /// APNs chooses the id. A dispatcher never makes this request twice.
        case create(ChannelStorage)
        case read(ChannelID)
        case delete(ChannelID)
        case list

        package var operation: ChannelOperation {
            switch self {
            case .create: .create
            case .read: .read
            case .delete: .delete
            case .list: .list
            }
        }
    }

    package var id: PushID
    package var app: AppSlug
    package var environment: APNsEnvironment
    package var bundleID: String
    package var request: Request
    /// A dispatcher begins no request at or after this moment. UNIX milliseconds.
    package var expiresAt: Int64

    package init(id: PushID, app: AppSlug, environment: APNsEnvironment, bundleID: String, request: Request, expiresAt: Int64) {
        self.id = id
        self.app = app
        self.environment = environment
        self.bundleID = bundleID
        self.request = request
        self.expiresAt = expiresAt
    }

    package func encoded() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.field("v", Self.currentVersion)
            writer.plainField("id", id.append)
            writer.field("app", app.text)
            writer.field("environment", environment.rawValue)
            writer.field("bundle_id", bundleID)
            writer.field("operation", request.operation.rawValue)
            switch request {
            case .create(let storage): writer.field("storage", storage.rawValue)
            case .read(let channel), .delete(let channel): writer.field("channel_id", channel.text)
            case .list: break
            }
            writer.plainField("expires_at") { RFC3339.append(milliseconds: expiresAt, to: &$0) }
        }
        return writer.bytes
    }

    /// - Throws: ``MessageError``, for any bytes that are not a command of a version up to ``currentVersion``.
    package init(decoding bytes: [UInt8]) throws(MessageError) {
        let entry: MessageFields
        do throws(JSONError) { entry = MessageFields(try JSONValue.parse(bytes)) } catch { throw MessageError(error) }
        try MessageVersion.check(Int(clamping: try entry.integer("v")), atMost: Self.currentVersion)
        let bundleID = try entry.string("bundle_id")
        guard BundleID.isOne(bundleID) else {
            throw MessageError(.invalidField("bundle_id"), "expected \(BundleID.rule)")
        }
        let request: Request =
            switch try entry.choice("operation", of: ChannelOperation.self) {
            case .create: .create(try entry.choice("storage", of: ChannelStorage.self))
            case .read: .read(try entry.channel("channel_id"))
            case .delete: .delete(try entry.channel("channel_id"))
            case .list: .list
            }
        self.init(
            id: try entry.id("id"), app: try entry.app("app"), environment: try entry.choice("environment", of: APNsEnvironment.self),
            bundleID: bundleID, request: request, expiresAt: try entry.moment("expires_at"))
    }
}
