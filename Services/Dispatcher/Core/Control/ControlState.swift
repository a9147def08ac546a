package import PushModel

/// The fences and cancelled notifications that the control stream has announced. Pure; ``ControlGate`` shares it between threads.
///
/// Bounded by age: an entry is forgotten once no job that it could stop can still be alive. Entries of apps that no credential names are
/// kept as well: a credential for them may come at any time, and their jobs wait for it.
package struct ControlState: Sendable {
    /// An app's place in ``CredentialDirectory``.
    package typealias AppIndex = UInt16

    private struct FencedInstallation: Hashable {
        let app: AppIndex
        let installation: PushID
    }

    private struct CancelledNotification: Hashable {
        let app: AppIndex
        let notification: PushID
    }

    /// By installation: the epochs below are over.
    private var fences = AgingTable<FencedInstallation, Int64>()
    private var cancels = AgingTable<CancelledNotification, Void>()

    var count: Int { fences.count + cancels.count }

    /// Later fences never lower an earlier one: the stream is read from its beginning after every reconnect.
    package mutating func fence(app: AppIndex, installation: PushID, epochsBelow: Int64, at: Int64) {
        fences.update(FencedInstallation(app: app, installation: installation), at: at) { max(epochsBelow, $0 ?? .min) }
    }

    mutating func cancel(app: AppIndex, notification: PushID, at: Int64) {
        cancels.update(CancelledNotification(app: app, notification: notification), at: at) { _ in }
    }

    func isFenced(app: AppIndex, installation: PushID, ownerEpoch: Int64) -> Bool {
        guard let epochsBelow = fences[FencedInstallation(app: app, installation: installation)] else { return false }
        return ownerEpoch < epochsBelow
    }

    func isCancelled(app: AppIndex, notification: PushID) -> Bool {
        cancels[CancelledNotification(app: app, notification: notification)] != nil
    }

    /// Does a part of the work at a time, because each check waits for the lock around this.
    /// - Parameter moment: UNIX milliseconds; entries from before it go.
    package mutating func forget(before moment: Int64) {
        fences.forget(before: moment, looking: Self.looksAtOnce)
        cancels.forget(before: moment, looking: Self.looksAtOnce)
    }

    private static let looksAtOnce = 1_000
}
