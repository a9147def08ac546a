import PushModel
package import TokenServiceApps

/// A change of one installation on its way into a ``RegistryBatch``, with the locks and reads that it needs.
package struct RegistryRequest: Sendable {
    package let app: App
    package let change: RegistryChange
    package let installation: InstallationKey
    /// Every token that the request names, for any reason.
    let tokens: [DeviceToken]
    /// The user to sign in. The name is locked, so that a sign-out of the user sees all of this change or nothing.
    let user: String?
    /// Computed with the request, so that the database does not wait for it in the batch.
    let locks: [Int64]

    package init(app: App, _ registration: Registration) {
        self.init(
            app, .register(registration), registration.installation, registration.tokens, registration.replaces, user: registration.user)
    }

    package init(app: App, _ patch: InstallationPatch) {
        var user: String?
        if case .set(let name) = patch.user { user = name }
        self.init(app, .patch(patch), patch.installation, patch.tokens ?? [], patch.replaces, user: user)
    }

    package init(app: App, _ report: ActivityReport) {
        self.init(app, .report(report), report.installation, report.token.map { [$0] } ?? [], nil, user: nil)
    }

    package init(app: App, _ assignment: TagAssignment) {
        self.init(app, .tag(assignment), assignment.installation, [], nil, user: nil)
    }

    private init(
        _ app: App, _ change: RegistryChange, _ id: PushID, _ named: [RegisteredToken], _ replaces: DeviceToken?, user: String?
    ) {
        self.app = app
        self.change = change
        self.user = user
        installation = InstallationKey(app: app.id, id: id)
        tokens = named.map(\.token) + (replaces.map { [$0] } ?? [])
        locks = RegistryLock.keys(app: app.id, installations: [id], tokens: tokens, users: user.map { [$0] } ?? [])
    }

    /// Its part of a batch's weight. A value that it names for many purposes counts once for each.
    var weight: Int { max(locks.count, tokens.count) }

    /// The user whose other installations the single policy signs out.
    package var onlyInstallationOf: String? { app.devicePolicy == .single ? user : nil }
}
