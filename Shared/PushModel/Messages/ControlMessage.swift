import StrictJSON

/// One entry of the `push.control` stream, which every dispatcher reads from its beginning before it takes a job.
package enum ControlMessage: Equatable, Sendable {
    package static let currentVersion = 1

    /// Owner epochs of an installation below `epochsBelow` are over.
    case fence(app: AppSlug, installation: PushID, epochsBelow: Int64, at: Int64)
    /// No more pushes of this notification are sent.
    case cancel(app: AppSlug, notification: PushID, at: Int64)
    /// Deliveries in the scope wait until the hold is lifted or ends. The entry is repeated while it lasts; `at` is the time of this copy.
    case hold(id: PushID, scope: HoldScope, endsAt: Int64?, at: Int64)
    /// The hold is lifted, for good: a later hold has another id.
    case unhold(id: PushID, at: Int64)
    /// A reader's own mark: when it reads it back, it has caught up.
    case marker(id: PushID)
    /// A kind this version does not know. Readers pass over it, so that a newer writer may add kinds.
    case other(kind: String)
}

/// The JSON form. Fields are described in PushModel.docc, Contracts.
extension ControlMessage {
    package static let contentType = "application/json"

    package func encoded() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.field("v", Self.currentVersion)
            writer.field("kind", kind)
            switch self {
            case .fence(let app, let installation, let epochsBelow, let at):
                writer.field("app", app.text)
                writer.plainField("installation", installation.append)
                writer.field("epochs_below", epochsBelow)
                writer.field("at_ms", at)
            case .cancel(let app, let notification, let at):
                writer.field("app", app.text)
                writer.plainField("notification", notification.append)
                writer.field("at_ms", at)
            case .hold(let id, let scope, let endsAt, let at):
                writer.plainField("id", id.append)
                writer.field("app", scope.app?.text)
                writer.field("lane", scope.lane?.rawValue)
                if let notification = scope.notification { writer.plainField("notification", notification.append) }
                writer.field("ends_at_ms", endsAt)
                writer.field("at_ms", at)
            case .unhold(let id, let at):
                writer.plainField("id", id.append)
                writer.field("at_ms", at)
            case .marker(let id): writer.plainField("id", id.append)
            case .other: break
            }
        }
        return writer.bytes
    }

    /// - Throws: ``MessageError``, for any bytes that are not a control message of a version up to ``currentVersion``.
    package init(decoding bytes: [UInt8]) throws(MessageError) {
        // A tree, because `kind` decides the meaning of the other fields.
        let entry: MessageFields
        do throws(JSONError) { entry = MessageFields(try JSONValue.parse(bytes)) } catch { throw MessageError(error) }
        try MessageVersion.check(Int(clamping: try entry.integer("v")), atMost: Self.currentVersion)
        switch try entry.string("kind") {
        case "fence":
            self = .fence(
                app: try entry.app("app"), installation: try entry.id("installation"), epochsBelow: try entry.integer("epochs_below"),
                at: try entry.integer("at_ms"))
        case "cancel":
            self = .cancel(app: try entry.app("app"), notification: try entry.id("notification"), at: try entry.integer("at_ms"))
        case "hold":
            self = .hold(
                id: try entry.id("id"), scope: try entry.scope(), endsAt: entry.has("ends_at_ms") ? try entry.integer("ends_at_ms") : nil,
                at: try entry.integer("at_ms"))
        case "unhold": self = .unhold(id: try entry.id("id"), at: try entry.integer("at_ms"))
        case "marker": self = .marker(id: try entry.id("id"))
        case let kind: self = .other(kind: kind)
        }
    }

    private var kind: String {
        switch self {
        case .fence: "fence"
        case .cancel: "cancel"
        case .hold: "hold"
        case .unhold: "unhold"
        case .marker: "marker"
        case .other(let kind): kind
        }
    }
}

extension MessageFields {
    /// A part that is not named does not limit the scope; a lane that this program does not know is refused, never taken for all lanes.
    fileprivate func scope() throws(MessageError) -> HoldScope {
        var lane: Lane?
        if has("lane") {
            lane = Lane(rawValue: try string("lane"))
            if lane == nil { throw MessageError(.invalidField("lane"), "expected a lane") }
        }
        let scope = HoldScope(
            app: has("app") ? try app("app") : nil, lane: lane, notification: has("notification") ? try id("notification") : nil)
        guard let scope else { throw MessageError(.invalidField("notification"), "expected with an app and without a lane") }
        return scope
    }
}
