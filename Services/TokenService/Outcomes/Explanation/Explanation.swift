package import PushModel
import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry
package import TokenServiceSending

/// The events of one notification for one user, in order, from the match to Apple's answer.
package struct Explanation: Equatable, Sendable {
    package enum Conclusion: String, CaseIterable, Sendable {
        /// APNs accepted it for at least one device. APNs does not report what the device does with it.
        case sent
        /// A push may still be sent.
        case waiting
        case notSent = "not_sent"
        /// It was sent and no answer came: it may have arrived.
        case unknown
        /// It was never meant for the user.
        case notAddressed = "not_addressed"
        /// The stored data does not show it.
        case notRecorded = "not_recorded"
    }

    package var notification: PushID
    package var user: String
    package var state: NotificationState
    package var receipts: NotificationRequest.Receipts
    package var conclusion: Conclusion
    /// One sentence.
    package var summary: String
    package var steps: [Step]
    /// The explanation did not read every row.
    package var isCutShort: Bool

    package struct Step: Equatable, Sendable {
        /// UNIX milliseconds; nil where it is not recorded.
        package var at: Int64?
        package var what: What
        /// A sentence for people.
        package var why: String
        package var detail = Detail()
    }

    package struct Detail: Equatable, Sendable {
        package var installation: PushID?
        package var delivery: PushID?
        package var hint: String?
        package var environment: String?
        package var outcome: String?
        package var status: Int?
        package var reason: String?
        package var attempts: Int?
        package var hold: PushID?
        /// UNIX milliseconds.
        package var until: Int64?
    }

    static let response = ResponseSchema<OfApp<Explanation>>.object(
        "Explanation",
        [
            .required("id", .uuid) { $0.value.notification },
            .required("app", .slug) { $0.app },
            .required("user", .text(.user)) { $0.value.user },
            .required("state", .word) { $0.value.state },
            .required("receipts", .receipts) { $0.value.receipts },
            .required("conclusion", .word) { $0.value.conclusion },
            .required("explanation", .text(.string().example("Sent: APNs accepted it for 2 of 2 tokens of ada.")), "One sentence.") {
                $0.value.summary
            },
            .required("steps", .array(Step.response), "In order of time.") { $0.value.steps },
            .optional("is_cut_short", .boolean, "The user has more devices, or the notification more deliveries, than were looked at.") {
                $0.value.isCutShort ? true : nil
            },
        ])
}

extension Explanation {
    /// The subject of a step: stable, for programs.
    package enum What: String, CaseIterable, Sendable {
        // Of the notification.
        case accepted, scheduled, cancelled, superseded, expired, completed
        case noTargets = "no_targets"
        // Whether it is meant for the user.
        case addressed
        case notAddressed = "not_addressed"
        case neverSignedIn = "never_signed_in"
        case named
        case notNamed = "not_named"
        case ownerDiffers = "owner_differs"
        case matchesNow = "matches_now"
        case tagsDoNotMatch = "tags_do_not_match"
        case signedOutBefore = "signed_out_before"
        case signedInLater = "signed_in_later"
        case noToken = "no_token"
        case noTokenThen = "no_token_then"
        case tokenInQuarantine = "token_in_quarantine"
        case tokenDoubtful = "token_doubtful"
        case notReachedYet = "not_reached_yet"
        case stoppedBefore = "stopped_before"
        case notRecorded = "not_recorded"
        // Of a delivery.
        case deliveryMade = "delivery_made"
        case waits
        case published
        case notPublished = "not_published"
        case attempt
        case pending
        case ended
        case held
        // Of the device meanwhile.
        case signedOut = "signed_out"
        case signedIn = "signed_in"
        case deregistered
        case fenced
        case throttled
        case notShown = "not_shown"
        case shownQuietly = "shown_quietly"
        case tokenChanged = "token_changed"
    }
}

extension Explanation.Step {
    fileprivate static let response = ResponseSchema<Explanation.Step>.object(
        "ExplanationStep",
        [
            .nullable("at", .time, "Null where it is not recorded.") { $0.at },
            .required("what", .word) { $0.what },
            .required("why", .text(.string().example("APNs accepted it.")), "For people.") { $0.why },
            .optional("detail", Explanation.Detail.response) { $0.detail == Explanation.Detail() ? nil : $0.detail },
        ])
}

extension Explanation.Detail {
    fileprivate static let response = ResponseSchema<Explanation.Detail>.object(
        "ExplanationDetail",
        [
            .optional("installation", .uuid) { $0.installation },
            .optional("delivery", .uuid, "Also the apns-id.") { $0.delivery },
            .optional("hint", .text(.tokenHint)) { $0.hint },
            .optional("environment", .text(.environment)) { $0.environment },
            .optional("class", .text(.words(OutcomeClass.self))) { $0.outcome },
            .optional("status", .integer(.integer.example(410)), "APNs' HTTP status.") { $0.status },
            .optional(
                "reason", .text(.outcomeReason.example("Unregistered")),
                "APNs' word, or ours in `snake_case`; of a step about the device or a hold, why."
            ) { $0.reason },
            .optional("attempts", .count) { $0.attempts },
            .optional(
                "hold", .uuid, "Of a step `held`: the hold that keeps it back; each that is in force has a step of its own."
            ) { $0.hold },
            .optional("until", .time) { $0.until },
        ])
}
