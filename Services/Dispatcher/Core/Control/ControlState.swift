import PushModel

/// What the control stream has said so far: fences and cancelled notifications. Pure; ``ControlGate`` shares it between threads.
///
/// Bounded by age: an entry is forgotten once no job that it could stop can still be alive. Entries of apps that no credential names are kept
/// as well: a credential for them may come at any time, and their jobs wait for it.
struct ControlState: Sendable {
    /// An app's place in ``CredentialDirectory``.
    typealias AppIndex = UInt16

    private struct Fence {
        var epochsBelow: Int64
        var at: Int64
    }

    private struct FencedInstallation: Hashable {
        let app: AppIndex
        let installation: PushID
    }

    private struct CancelledNotification: Hashable {
        let app: AppIndex
        let notification: PushID
    }

    private var fences: [FencedInstallation: Fence] = [:]
    private var cancels: [CancelledNotification: Int64] = [:]

    var count: Int { fences.count + cancels.count }

    /// Later fences never lower an earlier one: the stream is read from its beginning after every reconnect.
    mutating func fence(app: AppIndex, installation: PushID, epochsBelow: Int64, at: Int64) {
        let key = FencedInstallation(app: app, installation: installation)
        let known = fences[key]
        fences[key] = Fence(epochsBelow: max(epochsBelow, known?.epochsBelow ?? .min), at: max(at, known?.at ?? .min))
    }

    mutating func cancel(app: AppIndex, notification: PushID, at: Int64) {
        let key = CancelledNotification(app: app, notification: notification)
        cancels[key] = max(at, cancels[key] ?? .min)
    }

    func isFenced(app: AppIndex, installation: PushID, ownerEpoch: Int64) -> Bool {
        guard !fences.isEmpty, let fence = fences[FencedInstallation(app: app, installation: installation)] else { return false }
        return ownerEpoch < fence.epochsBelow
    }

    func isCancelled(app: AppIndex, notification: PushID) -> Bool {
        !cancels.isEmpty && cancels[CancelledNotification(app: app, notification: notification)] != nil
    }

    /// - Parameter moment: UNIX milliseconds; entries from before it go.
    mutating func forget(before moment: Int64) {
        fences = fences.filter { $0.value.at >= moment }
        cancels = cancels.filter { $0.value >= moment }
    }
}
