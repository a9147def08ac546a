package import PushModel

/// A token that was retired as rejected while, as was found afterwards, the fault was ours. Times are UNIX milliseconds.
package struct QuarantinedToken: Equatable, Sendable {
    package var id: Int64
    package var installation: PushID
    package var hint: String
    package var environment: String
    package var purpose: String
    package var retiredAt: Int64
    package var quarantinedAt: Int64
}
