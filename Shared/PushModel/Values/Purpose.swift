import StrictJSON

/// What a token is for. An installation has at most one live token for each purpose and environment.
///
/// Apple: "Starting and updating Live Activities with ActivityKit push notifications" distinguishes the two of a Live Activity.
package enum Purpose: RawRepresentable, Sendable, Hashable {
    case alert, voip, pushtotalk, location, complication, fileprovider, controls, widgets, mdm
    /// Starts Live Activities of one attributes type.
    case activityStart(type: String)
    /// Updates and ends one Live Activity. The id is the app's own.
    case activity(id: String)
    /// Not of a token: what a broadcast goes to, by the name that the backend gave the channel.
    case channel(name: String)

    /// Those without a name of their own.
    package static let plain: [Purpose] = [
        .alert, .voip, .pushtotalk, .location, .complication, .fileprovider, .controls, .widgets, .mdm,
    ]
    /// Of a type or an id, in bytes of UTF-8.
    package static let maximumNameBytes = 128

    private static let startPrefix = "activity_start:"
    private static let activityPrefix = "activity:"
    private static let channelPrefix = "channel:"

    package init?(rawValue: String) {
        if let plain = Self.plain.first(where: { $0.rawValue == rawValue }) {
            self = plain
        } else if let type = Self.name(in: rawValue, after: Self.startPrefix) {
            self = .activityStart(type: type)
        } else if let id = Self.name(in: rawValue, after: Self.activityPrefix) {
            self = .activity(id: id)
        } else if let name = Self.name(in: rawValue, after: Self.channelPrefix) {
            self = .channel(name: name)
        } else {
            return nil
        }
    }

    /// A type or an id may be any text without control characters.
    package static let nameRule = "1 to \(maximumNameBytes) bytes without control characters"

    package static func isName(_ text: String) -> Bool {
        (1...maximumNameBytes).contains(text.utf8.count) && !text.utf8.contains { $0.isControl }
    }

    private static func name(in text: String, after prefix: String) -> String? {
        guard text.hasPrefix(prefix) else { return nil }
        let name = String(text.dropFirst(prefix.count))
        return isName(name) ? name : nil
    }

    /// As the database and the HTTP API have it.
    package var rawValue: String {
        switch self {
        case .alert: "alert"
        case .voip: "voip"
        case .pushtotalk: "pushtotalk"
        case .location: "location"
        case .complication: "complication"
        case .fileprovider: "fileprovider"
        case .controls: "controls"
        case .widgets: "widgets"
        case .mdm: "mdm"
        case .activityStart(let type): Self.startPrefix + type
        case .activity(let id): Self.activityPrefix + id
        case .channel(let name): Self.channelPrefix + name
        }
    }

    /// Whether a token can have it.
    package var isOfToken: Bool { if case .channel = self { false } else { true } }

    /// Whether it is one of the two of a Live Activity.
    package var isOfActivity: Bool {
        switch self {
        case .activityStart, .activity: true
        default: false
        }
    }
}
