/// The result of a delivery, or of one try of it. The raw value is the second word of the outcome's routing key.
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
    /// The end of a delivery of which no more requests are sent, and whose class would be this one if none had ever left.
    package func after(_ earlier: PushJob.EarlierOutcome) -> OutcomeClass {
        switch (earlier, self) {
        // It may have arrived, and every other class would deny that.
        case (.unknown, _): .unknown
        // It did not expire unsent: APNs was asked, and failed.
        case (.failed, .expired): .failed
        default: self
        }
    }
}
