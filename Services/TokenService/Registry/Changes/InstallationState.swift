import PushModel
import TokenServiceKit

/// A row of `installations` while a batch is worked out. Times are UNIX milliseconds.
package struct InstallationState: Sendable {
    /// The necessary writes, from least to most.
    package enum Writing: Int, Comparable, Sendable {
        case nothing, refresh, everything

        package static func < (left: Writing, right: Writing) -> Bool { left.rawValue < right.rawValue }
    }

    package let key: InstallationKey
    package var owner: String? { didSet { if !oldValue.hasSameBytes(as: owner) { leaving.append(oldValue) } } }
    /// The users who left since the last end of an epoch in this batch; nil: no user.
    private(set) var leaving: [String?] = []
    /// The users whose Live Activities that the device may show end, because an epoch ended here in this batch; nil: no user.
    private(set) var ownersOfEnded: [String?] = []
    /// The Live Activities that the device reported in this batch after the last of these ends.
    private(set) var reportedLater: Set<Purpose> = []
    package private(set) var epoch: Int64
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
    /// How many active tokens a stand-in (``isImported``) has in the database, also those that were not read.
    package var storedActiveTokens: Int64 = 0
    package var fence = FenceState.none
    package let isStored: Bool
    package private(set) var writing = Writing.nothing

    package var isRegistered: Bool { deregisteredAt == nil }

    /// Ends the present epoch. A token that moves away ends one of a user who stays.
    mutating func endEpoch() {
        ownersOfEnded += leaving.isEmpty ? [owner] : leaving
        (leaving, reportedLater) = ([], [])
        epoch += 1
        fence = .pending
        needs(.everything)
    }

    /// The device has a token that it did not have before.
    mutating func gained(_ purpose: Purpose) { if purpose.isOfActivity { reportedLater.insert(purpose) } }

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
