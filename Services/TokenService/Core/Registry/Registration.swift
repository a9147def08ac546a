package import PushModel

/// What a client says about one installation: its whole state, checked. The rules are in ``InstallationRegistration``.
package struct Registration: Sendable {
    package var installation: PushID
    /// Who is signed in; nil for nobody.
    package var user: String?
    package var tokens: [RegisteredToken]
    package var profile: InstallationProfile
    /// A token that the client knows to be over.
    package var replaces: DeviceToken?
    package var expectedOwner: ExpectedOwner
}

/// One token of a registration. No two of a registration have the same environment and purpose.
package struct RegisteredToken: Hashable, Sendable {
    package var token: DeviceToken
    package var environment: APNsEnvironment
    package var purpose: Purpose
}

/// What the device told of itself. Nothing here decides anything yet; targeting will.
package struct InstallationProfile: Equatable, Sendable {
    package var locale: String?
    package var timeZone: String?
    package var appVersion: String?
    package var osVersion: String?
    package var deviceModel: String?
    package var tags: [String] = []

    package init() {}
}

/// Guards against a late request that would undo a newer one (DESIGN.md section 3, rule 8).
package enum ExpectedOwner: Equatable, Sendable {
    case anyone
    /// This user, or nobody where nil.
    case exactly(String?)

    package func allows(_ owner: String?) -> Bool {
        switch self {
        case .anyone: true
        case .exactly(let expected): expected == owner
        }
    }
}

/// The installation belongs to somebody else than the caller expected. Nothing was changed.
package struct OwnerMismatch: Error {}
