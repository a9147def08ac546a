package import PushModel
package import TokenServiceApps
package import TokenServiceKit

/// Every change of the registry. ``RegistryBatch/apply(_:of:)`` decides each of them, by the rules of `docs/registration.md`.
package enum RegistryChange: Sendable {
    /// A device states its whole state.
    case register(Registration)
    case patch(InstallationPatch)
    /// The update token of one Live Activity, or its end.
    case report(ActivityReport)
    /// A backend states its tags.
    case tag(TagAssignment)
    /// Rule 7. The installations keep their tokens.
    case signOut(Target, expecting: ExpectedOwner)
    /// Rule 5 ahead of the registration or patch itself: signs out the user's other installations, as far as they are loaded.
    indirect case supersede(before: RegistryChange)
    /// Rule 7. Empties the installations and retires their tokens.
    case deregister(Target, expecting: ExpectedOwner)
    /// Marks installations that did not register since that moment (UNIX milliseconds).
    case markStale([PushID], unseenSince: Int64)
    /// Deregisters installations that are marked and still did not register since that moment (UNIX milliseconds).
    case removeStale([PushID], unseenSince: Int64)
    /// Empties the user's installations and deletes their tokens.
    /// - Parameter left: Installations without an owner that this user was the last one to own.
    case erase(user: String, installations: [PushID], left: Set<PushID>)
    /// APNs answers that the token is gone or not valid.
    /// - Parameters:
    ///   - registeredUntil: A token that was registered later (UNIX milliseconds) stays.
    ///   - in: A token that is registered for another one stays; nil if APNs was asked in both.
    case retire(
        token: Int64, TokenState.RetiredReason, registeredUntil: Int64, in: APNsEnvironment?, answer: OutcomeEvent.Delivery)
    /// The update token of a Live Activity that must be off the lock screen, unless it was registered later (UNIX milliseconds).
    case retireActivity(token: Int64, registeredUntil: Int64)
    /// APNs accepts a start that was sent to a start token then (UNIX milliseconds).
    case countStart(token: Int64, sentAt: Int64)
    /// APNs accepts the token in this environment.
    case prove(token: Int64, in: APNsEnvironment)
    /// APNs accepts the token in this environment, having refused it in the one that it is registered for.
    case correct(token: Int64, to: APNsEnvironment, answer: OutcomeEvent.Delivery)
    /// The brake finds that a rejected token may be valid.
    case quarantine(token: Int64)
    /// An operator takes the token out of quarantine.
    case restore(token: Int64)

    /// The installations of a sign-out or a deregistration.
    package enum Target: Sendable {
        case installation(PushID)
        /// The installations that hold the token; a deregistration takes those where it is active. Nil: in either environment.
        case token(DeviceToken, APNsEnvironment?)
        /// The installations among these that the user is signed in on.
        case user(String, among: [PushID])
    }

    /// The effect of a change.
    package struct Result: Sendable {
        /// The installation after a registration or a patch.
        package var record: InstallationRecord?
        /// A registration made the installation.
        package var isNew = false
        /// The installations that the change signed out, removed or marked, in ascending order.
        package var installations: [InstallationKey] = []
        /// How many tokens it retired by APNs' answer, found doubtful, corrected, put into quarantine, took out of it, or deleted.
        package var tokens = 0
        /// The installations whose epochs it ended.
        package var fenced: Set<InstallationKey> = []
        /// ``OwnerMismatch`` or ``CredentialRevoked``, of a sign-out or a deregistration. Then its moment is the only change.
        var refusal: (any Error)?
    }
}

/// Names an installation among all apps'.
package struct InstallationKey: Hashable, Sendable, Comparable {
    package let app: App.ID
    package let id: PushID

    package init(app: App.ID, id: PushID) {
        self.app = app
        self.id = id
    }

    package static func < (left: InstallationKey, right: InstallationKey) -> Bool {
        left.app == right.app ? left.id < right.id : left.app < right.app
    }
}

/// The installation belongs to another user than the caller expected. The change had no effect.
package struct OwnerMismatch: ProblemError {

    package init() {}
    package var problem: APIError {
        APIError(.ownerMismatch, "the installation's user is not the expected one; nothing was changed")
    }
}

/// `If-Match` names another state than the present one. The change had no effect.
package struct PreconditionFailed: ProblemError {
    package var problem: APIError {
        APIError(.preconditionFailed, "If-Match names another state than the present one; read it again. Nothing was changed")
    }
}

/// There is nothing to change.
package struct NotRegistered: ProblemError {
    package var problem: APIError { .notFound }
}

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
    /// Whose sign-outs can end the credential of the device that asks; computed as the locks.
    let signOuts: [SignOutMoments.Name]

    package init(app: App, _ registration: Registration) {
        self.init(
            app, .register(registration), registration.installation, registration.tokens, registration.replaces, registration.expectedOwner,
            user: registration.user)
    }

    package init(app: App, _ patch: InstallationPatch) {
        var user: String?
        if case .set(let name) = patch.user { user = name }
        self.init(app, .patch(patch), patch.installation, patch.tokens ?? [], patch.replaces, patch.expectedOwner, user: user)
    }

    package init(app: App, _ report: ActivityReport) {
        self.init(app, .report(report), report.installation, report.token.map { [$0] } ?? [], nil, report.expectedOwner, user: nil)
    }

    package init(app: App, _ assignment: TagAssignment) {
        self.init(app, .tag(assignment), assignment.installation, [], nil, .anyone, user: nil)
    }

    private init(
        _ app: App, _ change: RegistryChange, _ id: PushID, _ named: [RegisteredToken], _ replaces: DeviceToken?,
        _ expected: ExpectedOwner, user: String?
    ) {
        self.app = app
        self.change = change
        self.user = user
        installation = InstallationKey(app: app.id, id: id)
        tokens = named.map(\.token) + (replaces.map { [$0] } ?? [])
        locks = RegistryLock.keys(app: app.id, installations: [id], tokens: tokens, users: user.map { [$0] } ?? [])
        signOuts = expected.signOuts(of: app)
    }

    /// The request's part of a batch's weight. A value that it names for many purposes counts once for each.
    var weight: Int { max(locks.count, tokens.count) }

    /// The user whose other installations the single policy signs out.
    package var onlyInstallationOf: String? { app.devicePolicy == .single ? user : nil }
}
