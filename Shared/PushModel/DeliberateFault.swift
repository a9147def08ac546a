#if PUSH_DELIBERATE_FAULTS
    import FoundationEssentials

    /// A promise to break, so that the chaos runs' checker can show that it notices (`deploy/chaos --controls`). No other build has this
    /// type or a line that names it: `Package.swift` defines the condition around them, and `check-sources.sh` sees that it is there.
    package enum DeliberateFault: String, CaseIterable, Sendable {
        /// The dispatcher acknowledges a job when it comes, not when it is settled. Kill -9 of dispatchers while APNs answers late shows
        /// it: deliveries are lost, or stuck.
        case acknowledgeFirst = "acknowledge-first"
        /// The token service marks jobs as published without the broker's confirmation. It shows when the link to RabbitMQ goes dark and
        /// the service is killed then: deliveries are lost, or stuck.
        case noConfirms = "no-confirms"
        /// A 410 retires its token, whenever that was registered. Devices of which APNs reports late that they are gone show it: they are
        /// wrongly retired.
        case goneWithoutTimestamp = "gone-without-timestamp"
        /// The dispatcher ignores fences. Users who leave while something waits for them show it: pushes come after the logout.
        case noFence = "no-fence"
        /// Idempotency keys are looked up and then written, without a lock in between. The same request at the same moment at both services
        /// shows it: there are two notifications for one key.
        case unlockedIdempotency = "unlocked-idempotency"
        /// After a GOAWAY everything in flight is sent again, not only what APNs cannot have processed. GOAWAY while APNs answers late
        /// shows it: there are unexplained duplicates.
        case resendAfterGoAway = "resend-after-goaway"
        /// An update of a Live Activity waits neither for the token nor for the update before it. Updates before the token, and APNs that
        /// answers late, show it: lock screens are wrong, or Live Activities out of order.
        case activityOutOfTurn = "activity-out-of-turn"
        /// When an update of a Live Activity has its outcome, the next one does not go. Bursts of updates show it: lock screens are wrong.
        case activityTurnLost = "activity-turn-lost"

        /// The one that `PUSH_DELIBERATE_FAULT` names. Nil: none, and every promise is kept.
        package static let chosen: DeliberateFault? = {
            guard let name = ProcessInfo.processInfo.environment["PUSH_DELIBERATE_FAULT"] else { return nil }
            guard let fault = DeliberateFault(rawValue: name) else {
                preconditionFailure("PUSH_DELIBERATE_FAULT=\(name) is none of \(allCases.map(\.rawValue).joined(separator: ", "))")
            }
            return fault
        }()
    }
#endif
