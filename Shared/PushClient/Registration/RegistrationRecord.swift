public import Foundation

/// What the client keeps over launches, beside the credential. It holds no token.
struct RegistrationRecord: Codable, Hashable, Sendable {
    /// If the stored one is another than the keychain's, a backup of another device was restored here, and the record counts for nothing.
    var installation: UUID
    var desired = DesiredState()
    var server: ServerBelief
    var receipts = ReceiptBook()
    var activities = KnownActivities()
}

/// A scoped, short-lived key for one user and installation. The app's backend gets it from the platform and hands it to the app.
public struct DeviceCredential: Codable, Sendable, Hashable {
    /// `psd_…`
    public var credential: String

    /// - Parameter answer: The platform's answer to `POST …/device-credentials`; fields beside `credential` are ignored, for the server
    ///   says when a credential is over.
    public init(answer: Data) throws {
        self = try JSONDecoder().decode(DeviceCredential.self, from: answer)
    }

    /// - Parameter credential: The text alone, `psd_…`; it is not checked.
    public init(_ credential: String) {
        self.credential = credential
    }
}

extension DeviceCredential: CustomStringConvertible {
    /// Logs must not hold credentials.
    public var description: String { "a device credential" }
}

/// A credential with the user that it is for.
struct HeldCredential: Codable, Hashable, Sendable {
    /// Nil: for no user.
    var user: String?
    var credential: DeviceCredential
    /// The server called it expired. It can still sign out its user, so the client keeps it until it has another.
    var isSpent = false
}
