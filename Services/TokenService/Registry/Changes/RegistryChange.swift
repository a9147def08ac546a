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
        /// Those that hold the token; a deregistration takes those where it is active. Nil: in either environment.
        case token(DeviceToken, APNsEnvironment?)
        /// Those of these that the user is signed in on.
        case user(String, among: [PushID])
    }

    /// The effect of a change.
    package struct Result: Sendable {
        /// After a registration or a patch.
        package var record: InstallationRecord?
        /// A registration made the installation.
        package var isNew = false
        /// The installations that the change signed out, removed or marked, in ascending order.
        package var installations: [InstallationKey] = []
        /// How many tokens it retired by APNs' answer, found doubtful, corrected, put into quarantine, took out of it, or deleted.
        package var tokens = 0
        /// The installations whose epochs it ended.
        package var fenced: Set<InstallationKey> = []
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
