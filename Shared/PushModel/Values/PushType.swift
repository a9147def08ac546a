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
