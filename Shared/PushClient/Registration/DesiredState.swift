/// What the app wants the server to know. It is durable, and the client uploads it until the server has it.
struct DesiredState: Codable, Hashable, Sendable {
    enum Presence: Codable, Hashable, Sendable {
        case signedIn(String)
        case signedOut
        /// The server shall forget the installation, until the app signs a user in again.
        case deregistered
    }

    var presence = Presence.signedOut
    var profile = PushProfile()

    var user: String? {
        if case .signedIn(let user) = presence { user } else { nil }
    }

    var claim: Claim { Claim(user: user, profile: profile) }
}

/// User and profile of an installation: what a registration states beside the tokens.
struct Claim: Codable, Hashable, Sendable {
    var user: String?
    var profile: PushProfile
}
