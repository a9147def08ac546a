/// What became of a delivery (DESIGN.md section 6). The raw value is the second word of the outcome's routing key.
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
