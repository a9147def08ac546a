import PushModel
package import StrictJSON

/// How many devices a target would reach at this moment, and why not the others.
package struct AudienceEstimate: Equatable, Sendable {
    /// So many devices are looked at; of a larger audience only these are told.
    package static let maximumDevices = 10_000

    /// By reason; devices without any reason are ``Reason/ready``.
    package var devices: [Reason: Int]
    /// Tokens that would be sent to: a device may have one in each environment.
    package var deliveries: Int
    /// There may be more of everything.
    package var isLowerBound: Bool

    package enum Reason: String, CaseIterable, Sendable {
        case ready, throttled
        case quietHours = "quiet_hours"
        case signedOut = "signed_out"
        case noToken = "no_token"
        case tokenRetired = "token_retired"
        case quarantined
        case otherPurpose = "other_purpose"
        case unknownUser = "unknown_user"
        case unknownInstallation = "unknown_installation"
        case unknownToken = "unknown_token"
        case deregistered
    }

    package enum Effect: String, CaseIterable, Sendable {
        case sent, delayed
        case notSent = "not_sent"
    }

    /// How many would be sent to, some of them later.
    package var reachable: Int { devices.reduce(0) { $0 + ($1.key.effect == .notSent ? 0 : $1.value) } }

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("devices", reachable)
            object.field("deliveries", deliveries)
            object.field("is_lower_bound", isLowerBound)
            object.array("reasons") { array in
                for reason in Reason.allCases where reason != .ready && devices[reason, default: 0] > 0 {
                    array.object { object in
                        object.field("reason", reason.rawValue)
                        object.field("effect", reason.effect.rawValue)
                        object.field("devices", devices[reason, default: 0])
                        object.field("detail", reason.detail)
                    }
                }
            }
        }
    }
}

extension AudienceEstimate.Reason {
    package var effect: AudienceEstimate.Effect {
        switch self {
        case .ready, .signedOut: .sent
        case .throttled, .quietHours: .delayed
        case .noToken, .tokenRetired, .quarantined, .otherPurpose, .unknownUser, .unknownInstallation, .unknownToken, .deregistered:
            .notSent
        }
    }

    /// For people.
    package var detail: String {
        switch self {
        case .ready: "would be sent to"
        case .throttled: "APNs asked to leave the device alone for a while"
        case .quietHours: "its user does not want to be disturbed when it would be due; it waits for the end of that, or for its expiry"
        case .signedOut: "nobody is signed in; a target that names no user reaches the device all the same"
        case .noToken: "the device has never registered a token for this push type"
        case .tokenRetired: "the device's tokens for this push type are over: replaced, removed, gone or rejected"
        case .quarantined: "the device's token was put aside by the brake and can be restored"
        case .otherPurpose: "the token was registered for another purpose than this push type needs"
        case .unknownUser: "nobody of this name is signed in anywhere"
        case .unknownInstallation: "there is no such installation"
        case .unknownToken: "nobody has registered this token"
        case .deregistered: "the installation was deregistered"
        }
    }
}
