/// `apns-push-type` as the server sees it: its spelling in bytes, and the rules that go with it (Apple: Sending notification requests to
/// APNs).
///
/// The simulator keeps its own table: it tests the client's, and must not share the client's mistakes.
enum ServerPushType: UInt8, Sendable, CaseIterable {
    case alert, background, voip, pushtotalk, location, complication, fileprovider, liveactivity, controls, widgets, mdm

    private static let names: [[UInt8]] = allCases.map { Array($0.name.utf8) }
    private static let suffixes: [[UInt8]] = allCases.map { Array($0.topicSuffix.utf8) }

    /// - Returns: nil for any text that is not in Apple's list, spelled exactly so.
    init?(_ text: Span<UInt8>) {
        for type in Self.allCases where text.holds(Self.names[Int(type.rawValue)]) {
            self = type
            return
        }
        return nil
    }

    var name: String {
        switch self {
        case .alert: "alert"
        case .background: "background"
        case .voip: "voip"
        case .pushtotalk: "pushtotalk"
        case .location: "location"
        case .complication: "complication"
        case .fileprovider: "fileprovider"
        case .liveactivity: "liveactivity"
        case .controls: "controls"
        case .widgets: "widgets"
        case .mdm: "mdm"
        }
    }

    /// The suffix of this type's topics, after the bundle id.
    var topicSuffix: String {
        switch self {
        case .alert, .background, .mdm: ""
        case .voip: ".voip"
        case .pushtotalk: ".voip-ptt"
        case .location: ".location-query"
        case .complication: ".complication"
        case .fileprovider: ".pushkit.fileprovider"
        case .liveactivity: ".push-type.liveactivity"
        case .controls: ".push-type.controls"
        case .widgets: ".push-type.widgets"
        }
    }

    /// Bytes of body (Apple: Generating a remote notification).
    var maximumPayloadBytes: Int { self == .voip ? 5120 : 4096 }

    /// The body of any type is refused above this.
    static let largestPayloadBytes = 5120

    /// Background pushes may be sent with 5 only, Live Activities with 5 or 10.
    func allows(priority: Int) -> Bool {
        switch self {
        case .background: priority == 5
        case .liveactivity: priority == 5 || priority == 10
        default: true
        }
    }

    func fits(topic: ArraySlice<UInt8>) -> Bool {
        let suffix = Self.suffixes[Int(rawValue)]
        return suffix.isEmpty || (topic.count > suffix.count && topic.suffix(suffix.count).elementsEqual(suffix))
    }

    /// The bundle id in a topic of any type: the topic without a suffix that Apple defines.
    static func bundleID(of topic: [UInt8]) -> ArraySlice<UInt8> {
        for suffix in suffixes where !suffix.isEmpty && topic.count > suffix.count && topic.suffix(suffix.count).elementsEqual(suffix) {
            return topic.dropLast(suffix.count)
        }
        return topic[...]
    }
}
