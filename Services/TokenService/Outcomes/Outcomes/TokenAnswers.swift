import PushModel
import TokenServiceRegistry

/// The changes of tokens that final outcomes cause. Only APNs' answers about a token cause any: `accepted`, `token_gone` and
/// `token_rejected`. Our own faults never touch a token (`docs/promises.md`, 7).
struct TokenAnswers: Sendable {
    private(set) var gone: [RegistryChange] = []
    private(set) var rejected: [RegistryChange] = []
    private(set) var corrections: [RegistryChange] = []
    private(set) var proofs: [RegistryChange] = []
    private(set) var starts: [RegistryChange] = []
    /// Every token that one of these is about, but for ``startTokens``.
    private(set) var tokens: Set<Int64> = []
    /// The tokens that ``starts`` are about: most of these starts do not count.
    private(set) var startTokens: Set<Int64> = []
    private(set) var corrected: [Int64] = []

    /// - Parameters:
    ///   - braked: Apps of which no rejected token is retired.
    ///   - starting: Notifications that start a Live Activity (``OutcomeStore/Origin/isStart``).
    init(_ finished: [OutcomeStore.Finished], of batch: OutcomeBatch, braked: Set<Int64>, starting: Set<PushID> = []) {
        // For a plain acceptance, `finished` has all the facts.
        let needed = batch.final.filter { $0.outcome != .accepted || $0.delivery.environment != nil }
        let entries = Dictionary(uniqueKeysWithValues: needed.map { ($0.delivery.id, $0) })
        for delivery in finished {
            let environment = delivery.environment
            if !starting.isEmpty, delivery.outcome == .accepted, starting.contains(delivery.notification) {
                starts.append(.countStart(token: delivery.token, sentAt: delivery.sentAt))
                startTokens.insert(delivery.token)
            }
            guard !entries.isEmpty, let entry = entries[delivery.id] else {
                if delivery.outcome == .accepted, delivery.isUnproven {
                    proofs.append(.prove(token: delivery.token, in: environment))
                    tokens.insert(delivery.token)
                }
                continue
            }
            let asked = entry.delivery.environment == nil ? environment : nil
            switch delivery.outcome {
            case .tokenGone:
                guard let since = entry.goneSince else { continue }
                gone.append(.retire(token: delivery.token, .gone, registeredUntil: since, in: asked, answer: entry.delivery))
            case .tokenRejected where !braked.contains(delivery.app):
                // APNs rejected the token as it was sent; a later registration is not affected, as with a 410.
                let since = entry.delivery.sentAt ?? entry.time
                rejected.append(.retire(token: delivery.token, .rejected, registeredUntil: since, in: asked, answer: entry.delivery))
            case .accepted where asked == nil:
                corrections.append(.correct(token: delivery.token, to: environment, answer: entry.delivery))
                corrected.append(delivery.token)
            default: continue
            }
            tokens.insert(delivery.token)
        }
    }
}
