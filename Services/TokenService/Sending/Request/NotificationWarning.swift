import StrictJSON
import TokenServiceKit

/// A legal but doubtful part of a request. The request is accepted all the same.
package struct NotificationWarning: Equatable, Sendable {
    package enum Code: String, CaseIterable, Sendable {
        case timeCriticalBackground = "time_critical_background"
        case frequentBackground = "frequent_background"
        case notShown = "not_shown"
        case appTagMeant = "app_tag_meant"
        case expiryNotStated = "expiry_not_stated"
        case expiresBeforeLastTimeZone = "expires_before_last_time_zone"
        case localTimePassed = "local_time_passed"
        case storedPastExpiry = "stored_past_expiry"
        case voipStored = "voip_stored"
        case pushToTalkStored = "pushtotalk_stored"
        case liveActivityBudget = "live_activity_budget"
        case liveActivityWithoutState = "live_activity_without_state"
        case lateDismissal = "late_dismissal"
        case ignoredKey = "ignored_key"
        case misplacedKey = "misplaced_key"
        case argumentsWithoutKey = "arguments_without_key"
    }

    package let code: Code
    /// A JSON pointer into the request.
    package let pointer: String

    package init(_ code: Code, at pointer: String) {
        self.code = code
        self.pointer = pointer
    }

    static let response = ResponseSchema<NotificationWarning>.object(
        "NotificationWarning",
        [
            .required("pointer", .text(.string().example("/ttl_seconds")), "Where: a JSON pointer into the request.") { $0.pointer },
            .required("code", .word) { $0.code },
            .required("detail", .text(), "For people.") { $0.code.detail },
        ])
}

extension NotificationWarning.Code {
    /// For people.
    package var detail: String {
        switch self {
        case .timeCriticalBackground: "the system delays and drops background pushes as it likes; what cannot wait is an alert"
        case .frequentBackground: "more than three background pushes within an hour: the system will throttle them on these devices"
        case .notShown: "no device that it would be sent to shows alerts now: the person has not allowed notifications"
        case .appTagMeant: "the expression reaches nobody, and apps report one of its words as a tag of their own: app:… names those"
        case .expiryNotStated:
            "what is time-critical should say when it is too late; without expires_at or ttl_seconds that is after 24 hours"
        case .expiresBeforeLastTimeZone: "it expires before this time has come to the last time zone; devices there get nothing"
        case .localTimePassed: "this time has passed already in some time zones; there it is due at once, while its lifetime lasts"
        case .storedPastExpiry: "a device that is away may show it after it has expired: APNs keeps it until apns_expiration"
        case .voipStored: "a call that rings late is worse than none: apns_expiration 0, or a short ttl_seconds"
        case .pushToTalkStored: "Apple asks for apns_expiration 0 with push type pushtotalk"
        case .liveActivityBudget: "an update with priority 10 counts against the device's hourly budget; priority 5 does not"
        case .liveActivityWithoutState: "without content-state the activity shows what it showed before, or cannot be shown"
        case .lateDismissal: "the system removes an ended activity after four hours at the latest"
        case .ignoredKey: "APNs and the system ignore this key here; keys of your own stand beside aps"
        case .misplacedKey: "Apple has this key in aps, and nowhere else: here it is a key of your own, or nothing"
        case .argumentsWithoutKey: "arguments without their localization key are not shown"
        }
    }
}

/// The form in which an idempotency record keeps the warnings of an answer, so that a repeat gives the first answer.
extension NotificationWarning {
    static func stored(_ warnings: [NotificationWarning]) -> String {
        var writer = JSONWriter()
        writer.array { array in
            for warning in warnings {
                array.object { object in
                    object.field("pointer", warning.pointer)
                    object.field("code", warning.code.rawValue)
                }
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    static func restored(_ text: String) throws -> [NotificationWarning] {
        return (try JSONValue.parse(Array(text.utf8)).arrayValue ?? []).compactMap { stored in
            // A newer release may know other codes.
            guard let code = stored["code"]?.stringValue.flatMap({ Code(rawValue: $0) }), let pointer = stored["pointer"]?.stringValue
            else {
                return nil
            }
            return NotificationWarning(code, at: pointer)
        }
    }
}
