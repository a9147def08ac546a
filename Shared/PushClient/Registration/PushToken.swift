public import Foundation

/// What a token is for. The raw values are those of the HTTP API.
public enum PushTokenPurpose: RawRepresentable, Codable, Sendable, Hashable {
    case alert, voip, pushtotalk, location, complication, fileprovider, controls, widgets, mdm
    /// Starts Live Activities of this attributes type.
    case activityStart(type: String)

    private static let plain: [PushTokenPurpose] = [
        .alert, .voip, .pushtotalk, .location, .complication, .fileprovider, .controls, .widgets, .mdm,
    ]
    private static let startPrefix = "activity_start:"

    /// Nil for a name that this library does not know.
    public init?(rawValue: String) {
        if let plain = Self.plain.first(where: { $0.rawValue == rawValue }) {
            self = plain
        } else if rawValue.hasPrefix(Self.startPrefix) {
            self = .activityStart(type: String(rawValue.dropFirst(Self.startPrefix.count)))
        } else {
            return nil
        }
    }

    var isStart: Bool {
        if case .activityStart = self { true } else { false }
    }

    /// The HTTP API's name: `alert`, for example, or `activity_start:` and the attributes type.
    public var rawValue: String {
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
        }
    }
}

/// One of Apple's two environments. A token works in one of them only.
public enum PushEnvironment: String, Codable, Sendable, Hashable {
    case production, sandbox
}

/// A token that the system gave in this launch. The library never stores one: a stored token may belong to another device.
public struct PushToken: Sendable, Hashable {
    /// Lower-case hex digits, two for each byte.
    public let hex: String
    /// A registration has one token for each purpose.
    public let purpose: PushTokenPurpose
    /// The client takes it from ``PushConfiguration/environment``.
    public let environment: PushEnvironment

    /// - Parameter bytes: The bytes as the system gave them, of any length.
    public init(_ bytes: Data, purpose: PushTokenPurpose, environment: PushEnvironment) {
        hex = bytes.map { byte in
            let digits = String(byte, radix: 16)
            return digits.count == 1 ? "0" + digits : digits
        }.joined()
        self.purpose = purpose
        self.environment = environment
    }
}

extension PushToken: CustomStringConvertible {
    /// Shows the last six digits only: logs must not hold tokens.
    public var description: String { "\(purpose.rawValue) …\(hex.suffix(6))" }
}
