import PushModel

/// A row of `installations` while a batch is worked out. Times are UNIX milliseconds.
package struct InstallationState: Sendable {
    /// The necessary writes, from least to most.
    package enum Writing: Int, Comparable, Sendable {
        case nothing, refresh, everything

        package static func < (left: Writing, right: Writing) -> Bool { left.rawValue < right.rawValue }
    }

    package let key: InstallationKey
    package var owner: String? { didSet { if !oldValue.hasSameBytes(as: owner) { formerOwners.append(oldValue) } } }
    /// Those whose time here ended in this batch, one after the other; nil: no user.
    private(set) var formerOwners: [String?] = []
    package var epoch: Int64
    package var signedOutReason: SignOutReason?
    package var throttledUntil: Int64?
    package var profile: InstallationProfile
    /// The backend's.
    package var tags: [String] = []
    /// Only lists of a backend have stated it; no device has registered it.
    package var isImported = false
    package var createdAt: Int64
    package var registeredAt: Int64
    package var deregisteredAt: Int64?
    package var staleSince: Int64?
    /// Until when the lines of history that it made count, one after another (``InstallationBounds/lines``).
    package var linesCountUntil: Int64?
    /// Of a stand-in (``isImported``): its active tokens in the database, also those that were not read.
    package var storedActiveTokens: Int64 = 0
    package var fence = FenceState.none
    package let isStored: Bool
    package private(set) var writing = Writing.nothing

    package var isRegistered: Bool { deregisteredAt == nil }

    /// Whose Live Activities the device may show when an epoch ends here. A token that moves away ends an epoch of the same user.
    var ownersOfActivities: [String?] { formerOwners.isEmpty ? [owner] : formerOwners }

    package mutating func needs(_ wanted: Writing) { writing = max(writing, wanted) }

    package mutating func signOut(_ reason: SignOutReason) {
        owner = nil
        signedOutReason = reason
        needs(.everything)
    }

    /// Removes the device's data. The epoch stays: it must never start again below a fence.
    package mutating func deregister(_ reason: SignOutReason, at now: Int64) {
        signOut(reason)
        deregisteredAt = now
        throttledUntil = nil
        profile = InstallationProfile()
        tags = []
    }
}

/// Why an installation has no owner.
package enum SignOutReason: String, Sendable {
    case logout, superseded, deregistered, stale, erased
}
