package import PushModel

/// What final outcomes say about tokens. Two classes speak against one, `accepted` speaks for it; everything else, our own faults above
/// all, never touches it (DESIGN.md section 8, promise 7).
package struct TokenVerdicts: Equatable, Sendable {
    package private(set) var gone: [Retirement] = []
    package private(set) var rejected: [Retirement] = []
    package private(set) var proofs: [Proof] = []
    package private(set) var corrections: [Correction] = []

    /// Retire a token, but not if it was registered after that moment (UNIX milliseconds).
    package struct Retirement: Equatable, Sendable {
        package let token: Int64
        package let notRegisteredAfter: Int64
        /// Only while the token is registered for this one; nil after both were asked.
        package let environment: String?
        package let said: OutcomeEvent.Delivery
    }

    /// APNs took the token in this environment.
    package struct Proof: Equatable, Sendable {
        package let token: Int64
        package let environment: String
    }

    /// APNs took it in this environment, having refused it in the one that it was registered for.
    package struct Correction: Equatable, Sendable {
        package let token: Int64
        package let environment: String
        package let said: OutcomeEvent.Delivery
    }

    /// - Parameter braked: Apps of which no rejected token is retired.
    package init(_ finished: [OutcomeStore.Finished], of batch: OutcomeBatch, braked: Set<Int64>) {
        // What is simply accepted says all there is to know in what was finished.
        let telling = batch.final.filter { $0.outcome != .accepted || $0.delivery.environment != nil }
        let entries = Dictionary(uniqueKeysWithValues: telling.map { ($0.delivery.id, $0) })
        var corrected: Set<Int64> = []
        for delivery in finished {
            guard !entries.isEmpty, let entry = entries[delivery.id] else {
                if delivery.outcome == .accepted, delivery.isUnproven {
                    proofs.append(Proof(token: delivery.token, environment: delivery.environment))
                }
                continue
            }
            let asked = entry.delivery.environment == nil ? delivery.environment : nil
            switch delivery.outcome {
            case .tokenGone:
                guard let since = entry.goneSince else { continue }
                gone.append(Retirement(token: delivery.token, notRegisteredAfter: since, environment: asked, said: entry.delivery))
            case .tokenRejected where !braked.contains(delivery.app):
                // Rejected was what we sent; what was registered since is another matter, as with a 410.
                let since = entry.delivery.sentAt ?? entry.time
                rejected.append(Retirement(token: delivery.token, notRegisteredAfter: since, environment: asked, said: entry.delivery))
            case .accepted where asked == nil:
                // Two notifications may have found out the same.
                guard corrected.insert(delivery.token).inserted else { continue }
                corrections.append(Correction(token: delivery.token, environment: delivery.environment, said: entry.delivery))
            default: break
            }
        }
    }

    /// Every token that is spoken of.
    package var tokens: [Int64] { gone.map(\.token) + rejected.map(\.token) + proofs.map(\.token) + corrections.map(\.token) }
}
