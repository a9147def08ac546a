/// Which of Apple's two worlds a token belongs to. A token sent to the other one looks like garbage there (APNS.md 1.1).
package enum APNsEnvironment: String, Sendable, CaseIterable, Hashable {
    case production, sandbox

    package var other: APNsEnvironment { self == .production ? .sandbox : .production }
}
