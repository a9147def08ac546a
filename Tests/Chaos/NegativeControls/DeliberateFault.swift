import FoundationEssentials

/// A build that breaks one promise, which `PUSH_DELIBERATE_FAULT` names. Only the negative controls of `deploy/chaos` are built with it
/// (Tests/Chaos/NegativeControls). This file and its uses are no part of the product.
package enum DeliberateFault: String, CaseIterable, Sendable {
    /// The dispatcher acknowledges a job when it comes, not when it is settled.
    case acknowledgeFirst = "acknowledge-first"
    /// The token service marks jobs as published without the broker's confirm.
    case noConfirms = "no-confirms"
    /// A 410 retires its token, whenever that was registered.
    case goneWithoutTimestamp = "gone-without-timestamp"
    /// The dispatcher ignores fences.
    case noFence = "no-fence"
    /// Idempotency keys are looked up and then written, without a lock in between.
    case unlockedIdempotency = "unlocked-idempotency"
    /// After a GOAWAY everything in flight is sent again, not only what APNs cannot have processed.
    case resendAfterGoAway = "resend-after-goaway"
    /// An update of a Live Activity waits for nothing: no token, no answer to the update before it.
    case activityOutOfTurn = "activity-out-of-turn"
    /// When an update of a Live Activity has its outcome, the next one does not go.
    case activityTurnLost = "activity-turn-lost"

    /// Nil: none, and every promise is kept.
    package static let chosen: DeliberateFault? = {
        guard let name = ProcessInfo.processInfo.environment["PUSH_DELIBERATE_FAULT"] else { return nil }
        guard let fault = DeliberateFault(rawValue: name) else {
            preconditionFailure("PUSH_DELIBERATE_FAULT=\(name) is none of \(allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return fault
    }()
}
