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
    /// What a broadcast goes to, by the name that the backend gave the channel; no token has this purpose.
    case channel(name: String)

    /// The purposes without a name of their own.
    package static let plain: [Purpose] = [
        .alert, .voip, .pushtotalk, .location, .complication, .fileprovider, .controls, .widgets, .mdm,
    ]
    /// The most bytes of UTF-8 of a type or an id.
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

    /// The purpose as the database and the HTTP API have it.
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

/// The characters of a bundle id, and so of every `apns-topic`: a header's value (RFC 9113 section 8.2.1 allows no line end and no blank at
/// an end) and, for channels, a part of a path.
package enum BundleID {
    package static let rule = "letters, digits, hyphens, underscores and full stops"

    package static func isOne(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
                    true
                default: false
                }
            }
    }

    /// Why a text that may be a bundle id is more likely something else; nil for an ordinary one.
    package static func doubt(about text: String) -> String? {
        let endings = PushType.allCases.map { $0.topic(bundleID: "") }.filter { !$0.isEmpty }
        if let ending = endings.first(where: { text.hasSuffix($0) }) {
            return "it ends with \(ending), which the platform adds to the bundle id itself for pushes of that type"
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        let isTeam =
            parts[0].utf8.count == 10 && parts[0].unicodeScalars.allSatisfy { ("A"..."Z").contains($0) || ("0"..."9").contains($0) }
        return isTeam && parts.count > 2 ? "\(parts[0]) at its beginning looks like a team id, which is no part of a bundle id" : nil
    }
}

/// `apns-push-type`: Apple's exhaustive list (Sending notification requests to APNs).
package enum PushType: String, Sendable, CaseIterable, Hashable {
    case alert, background, voip, pushtotalk, location, complication, fileprovider, liveactivity, controls, widgets, mdm

    /// The `apns-topic` of this type for an app (Apple: Sending notification requests to APNs). An MDM topic is the subject UID of a
    /// certificate, which `bundleID` holds then.
    package func topic(bundleID: String) -> String {
        switch self {
        case .alert, .background, .mdm: bundleID
        case .voip: bundleID + ".voip"
        case .pushtotalk: bundleID + ".voip-ptt"
        case .location: bundleID + ".location-query"
        case .complication: bundleID + ".complication"
        case .fileprovider: bundleID + ".pushkit.fileprovider"
        case .liveactivity: bundleID + ".push-type.liveactivity"
        case .controls: bundleID + ".push-type.controls"
        case .widgets: bundleID + ".push-type.widgets"
        }
    }

    /// The tokens that a push of this type goes to; nil for a Live Activity's, which its event decides.
    package var purpose: Purpose? {
        switch self {
        case .alert, .background: .alert
        case .voip: .voip
        case .pushtotalk: .pushtotalk
        case .location: .location
        case .complication: .complication
        case .fileprovider: .fileprovider
        case .liveactivity: nil
        case .controls: .controls
        case .widgets: .widgets
        case .mdm: .mdm
        }
    }

    /// The largest body APNs takes, in bytes of UTF-8 (Apple: Generating a remote notification).
    package var maximumPayloadBytes: Int { self == .voip ? 5120 : 4096 }

    /// The values of `apns-priority` that may go with this type (Apple: Sending notification requests to APNs).
    package var allowedPriorities: Set<Int> {
        switch self {
        case .background: [5]
        case .liveactivity: [5, 10]
        default: [1, 5, 10]
        }
    }

    package var defaultPriority: Int { self == .background ? 5 : 10 }
}
