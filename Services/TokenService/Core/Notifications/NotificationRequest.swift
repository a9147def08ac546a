package import PushModel

/// What a sender asks for, checked and with every default filled in.
package struct NotificationRequest: Equatable, Sendable {
    package var target: Target
    package var pushType: PushType
    package var priority: Int
    package var collapseID: String?
    /// `apns-expiration`, UNIX seconds; 0 = Apple tries once.
    package var apnsExpiration: Int64
    /// UNIX milliseconds: nothing is sent from then on.
    package var expiresAt: Int64
    package var lane: Lane
    package var onUnknown: PushJob.OnUnknown
    /// The APNs body, byte for byte as it stood in the request.
    package var payload: [UInt8]

    package enum Target: Equatable, Sendable {
        case user(String)
        case installation(PushID)
    }
}
