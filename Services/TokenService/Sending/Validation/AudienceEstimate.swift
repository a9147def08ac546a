import PushModel
import TokenServiceKit
package import TokenServiceRegistry

/// How many devices a target would reach now, and why not the others.
package struct AudienceEstimate: Equatable, Sendable {
    /// The count stops here; of a larger audience only these are reported.
    package static let maximumDevices = 10_000

    /// How many devices have each reason; devices without any are ``Reason/ready``.
    package var devices: [Reason: Int]
    /// Tokens that would be sent to: a device may have one in each environment.
    package var deliveries: Int
    /// The reachable devices by what they show of an alert; nil for any other push type.
    package var displays: [AlertDisplay: Int]?
    /// Reachable devices that have no known time zone, where their time depends on it.
    package var unknownTimeZones = 0
    /// There may be more of each.
    package var isLowerBound: Bool

    package enum Reason: String, CaseIterable, Sendable {
        case ready, throttled
        case quietHours = "quiet_hours"
        case signedOut = "signed_out"
        case noToken = "no_token"
        case tokenRetired = "token_retired"
        case tokenDoubtful = "token_doubtful"
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

    /// The target means no device.
    var isEmpty: Bool { !isLowerBound && devices.values.allSatisfy { $0 == 0 } }

    static let response = ResponseSchema<AudienceEstimate>.object(
        "Audience",
        [
            .required("devices", .count, "Would be sent to, some of them later.") { $0.reachable },
            .required("deliveries", .count, "Tokens: a device may have one in each environment.") { $0.deliveries },
            .optional(
                "displays", displays, "Of an alert: how many of these devices show it, by the permissions that the app last reported."
            ) {
                $0.displays
            },
            .required(
                "unknown_time_zones", .count,
                "With a local time or quiet hours: how many of these devices have no time zone that is known, and so count as UTC."
            ) { $0.unknownTimeZones },
            .required("is_lower_bound", .boolean, "Not everything was looked at: there may be more.") { $0.isLowerBound },
            .required("reasons", .array(reason), "Why devices would not be sent to, or not at once.") { estimate in
                Reason.allCases.filter { $0 != .ready }.map { ($0, estimate.devices[$0, default: 0]) }.filter { $0.1 > 0 }
            },
        ])

    private static let displays = ResponseSchema<[AlertDisplay: Int]>.object(
        "AudienceDisplays",
        AlertDisplay.allCases.map { display in
            .required(display.rawValue, .count, display.meaning) { $0[display, default: 0] }
        })

    private static let reason = ResponseSchema<(reason: Reason, devices: Int)>.object(
        "AudienceReason",
        [
            .required("reason", .text(.words(Reason.self).example("no_token"))) { $0.reason.rawValue },
            .required("effect", .text(.words(Effect.self).example("not_sent"))) { $0.reason.effect.rawValue },
            .required("devices", .count) { $0.devices },
            .required("detail", .text(.string().example("there is no such installation")), "For people.") { $0.reason.detail },
        ])
}

extension AudienceEstimate.Reason {
    package var effect: AudienceEstimate.Effect {
        switch self {
        case .ready, .signedOut: .sent
        case .throttled, .quietHours: .delayed
        case .noToken, .tokenRetired, .tokenDoubtful, .quarantined, .otherPurpose, .unknownUser, .unknownInstallation, .unknownToken,
            .deregistered:
            .notSent
        }
    }

    /// What the reason tells people.
    package var detail: String {
        switch self {
        case .ready: "would be sent to"
        case .throttled: "APNs asked to leave the device alone for a while"
        case .quietHours: "its user does not want to be disturbed when it would be due; it waits for the end of that, or for its expiry"
        case .signedOut: "no user is signed in; a target that names no user reaches the device all the same"
        case .noToken: "the device has never registered a token for this push type"
        case .tokenRetired: "the device's tokens for this push type are over: replaced, removed, gone or rejected"
        case .tokenDoubtful:
            "APNs accepts starts for the device's token, and no activity is reported; its next registration ends that, or a day"
        case .quarantined: "the device's token was put aside by the brake and can be restored"
        case .otherPurpose: "the token was registered for another purpose than this push type needs"
        case .unknownUser: "no user of this name is signed in anywhere"
        case .unknownInstallation: "there is no such installation"
        case .unknownToken: "no installation has registered this token"
        case .deregistered: "the installation was deregistered"
        }
    }
}

extension AlertDisplay {
    fileprivate var meaning: String {
        switch self {
        case .fully: "The person allows notifications: `authorized`, `ephemeral`."
        case .quietly: "In Notification Center only: `provisional`."
        case .notAtAll: "`denied`, `not_determined`."
        case .unknown: "The app has reported no permission."
        }
    }
}
