package import PushModel
package import StrictJSON

/// What happened to one notification for one user, in order, from the match to Apple's answer.
package struct Explanation: Equatable, Sendable {
    package enum Verdict: String, CaseIterable, Sendable {
        /// APNs accepted it for at least one device. What the device does with it APNs does not tell.
        case sent
        /// Something may still be sent.
        case waiting
        case notSent = "not_sent"
        /// It was sent and no answer came: it may have arrived.
        case unknown
        /// It was never meant for the user.
        case notAddressed = "not_addressed"
        /// What is stored does not tell.
        case notRecorded = "not_recorded"
    }

    package var notification: PushID
    package var user: String
    package var state: NotificationState
    package var receipts: NotificationRequest.Receipts
    package var verdict: Verdict
    /// One sentence.
    package var summary: String
    package var steps: [Step]
    /// Not everything was looked at.
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

    package func write(to writer: inout JSONWriter, app: AppSlug) {
        writer.object { object in
            object.field("id", notification.description)
            object.field("app", app.text)
            object.field("user", user)
            object.field("state", state.rawValue)
            object.field("receipts", receipts.rawValue)
            object.field("verdict", verdict.rawValue)
            object.field("explanation", summary)
            object.array("steps") { array in
                for step in steps { step.write(to: &array) }
            }
            if isCutShort { object.field("is_cut_short", true) }
        }
    }
}

extension Explanation {
    /// What a step tells of: stable, for programs.
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
        case tokenChanged = "token_changed"
    }
}

extension Explanation.Step {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.object { object in
            if let at { object.time("at", at) } else { object.null("at") }
            object.field("what", what.rawValue)
            object.field("why", why)
            guard detail != Explanation.Detail() else { return }
            object.object("detail") { object in
                object.field("installation", detail.installation?.description)
                object.field("delivery", detail.delivery?.description)
                object.field("hint", detail.hint)
                object.field("environment", detail.environment)
                object.field("class", detail.outcome)
                object.field("status", detail.status)
                object.field("reason", detail.reason)
                object.field("attempts", detail.attempts)
                object.field("hold", detail.hold?.description)
                object.time("until", detail.until)
            }
        }
    }
}
