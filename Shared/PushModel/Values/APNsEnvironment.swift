/// Which of Apple's two worlds a token belongs to. A token sent to the other one looks like garbage there (docs/apns.md, Environments).
package enum APNsEnvironment: String, Sendable, CaseIterable, Hashable {
    case production, sandbox

    package var other: APNsEnvironment { self == .production ? .sandbox : .production }
}
