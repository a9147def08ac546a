/// The environment of Apple's that a token belongs to. The other one rejects the token as a bad token (docs/apns.md, Environments).
package enum APNsEnvironment: String, Sendable, CaseIterable, Hashable {
    case production, sandbox

    package var other: APNsEnvironment { self == .production ? .sandbox : .production }
}
