/// What became of a delivery. The raw value is the second word of the outcome's routing key.
package enum OutcomeClass: String, Sendable, CaseIterable, Hashable {
    case accepted
    case tokenGone = "token_gone"
    case tokenRejected = "token_rejected"
    case throttled
    case rejected
    case misconfigured
    case expired
    case fenced
    case held
    case cancelled
    case failed
    case unknown
}

extension OutcomeClass {
    /// How a delivery ends of which nothing more is sent, and that would end so if nothing of it had ever left.
    package func after(_ earlier: PushJob.EarlierOutcome) -> OutcomeClass {
        switch (earlier, self) {
        // It may have arrived, and every other class would say that it did not.
        case (.unknown, _): .unknown
        // It did not expire unsent: APNs was asked, and failed.
        case (.failed, .expired): .failed
        default: self
        }
    }
}
