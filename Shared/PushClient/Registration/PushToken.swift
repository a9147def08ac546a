public import Foundation

/// What a token is for. The raw values are those of the HTTP API.
public enum PushTokenPurpose: String, Codable, Sendable, CaseIterable, Hashable {
    case alert, voip, liveactivity, pushtotalk, location, complication, fileprovider, controls, widgets, mdm
}

/// One of Apple's two environments. A token works in one of them only.
public enum PushEnvironment: String, Codable, Sendable, Hashable {
    case production, sandbox
}

/// A token that the system gave in this launch. The library never stores one: a stored token may belong to another device.
public struct PushToken: Sendable, Hashable {
    /// Lower-case hex digits, two for each byte.
    public let hex: String
    public let purpose: PushTokenPurpose
    public let environment: PushEnvironment

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
