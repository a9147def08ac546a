package import PushModel

/// A tenant. Nothing of it changes after it was made, so it may be kept in memory for as long as the process lives.
package struct App: Equatable, Sendable {
    package typealias ID = Int64

    package let id: ID
    package let slug: AppSlug
    package let bundleID: String
    package let devicePolicy: DevicePolicy
    package let environments: [APNsEnvironment]
}

/// On how many installations a user may be signed in at once (DESIGN.md section 3, rule 5).
package enum DevicePolicy: String, Sendable, CaseIterable {
    case multi, single
}
