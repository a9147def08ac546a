package import PushModel
package import StrictJSON
import TokenServiceApps
import TokenServiceKit
package import TokenServiceRegistry

/// A sender's request, checked and with every default filled in.
package struct NotificationRequest: Equatable, Sendable {
    package var target: Target
    package var pushType: PushType
    /// Of the tokens that it goes to.
    package var purpose: Purpose
    package var priority: Int
    package var collapseID: String?
    /// `apns-expiration`, UNIX seconds; 0 = Apple tries once.
    package var apnsExpiration: Int64
    /// UNIX milliseconds: no push is sent from then on.
    package var expiresAt: Int64
    package var timing = Timing()
    package var lane: Lane
    package var onUnknown: PushJob.OnUnknown
    /// Older notifications to the same user or installation with the same key are stopped.
    package var supersedeKey: String?
    /// Nil: by the size of the audience.
    package var receipts: Receipts?
    /// Whether devices report what becomes of it.
    package var deviceReceipts = false
    package var content: RenderedContent
    /// What it does to a Live Activity that it names.
    package var activity: ActivityChange?
    /// Legal but doubtful parts of the request; the answer shows them to the sender.
    package var warnings: [NotificationWarning] = []

    /// The addressees. Lists hold no name twice and are in the sender's order.
    package enum Target: Equatable, Sendable {
        case user(String)
        case users([String])
        case installation(PushID)
        case installations([PushID])
        case tokens([DeviceToken])
        case tags(TagExpression)
        case all
        /// Every device whose Live Activity follows this channel, by one request to APNs.
        case channel(String, Fallback?)
    }

    /// How devices that cannot follow a channel get its broadcasts.
    package enum Fallback: String, Sendable, CaseIterable {
        /// The activities of the channel that have update tokens are updated one by one.
        case activities
    }

    /// Where a request states its addressees.
    package enum Addressing: Sendable {
        /// In `to`.
        case stated
        /// In `to`, as a list that may be longer.
        case upload
        /// The path names this channel.
        case channel(String)
    }

    /// When.
    package struct Timing: Equatable, Sendable {
        /// UNIX milliseconds; nil = at once.
        package var notBefore: Int64?
        /// Instead of `notBefore`: this time of day in each device's zone.
        package var localTime: LocalTime?
        /// Each delivery's own lifetime from the moment at which it is due, in milliseconds; it ends with `expiresAt` in any case.
        package var lifetime: Int64?
        /// Overrides the users' quiet hours.
        package var isUrgent = false

        package init(notBefore: Int64? = nil, localTime: LocalTime? = nil, lifetime: Int64? = nil, isUrgent: Bool = false) {
            self.notBefore = notBefore
            self.localTime = localTime
            self.lifetime = lifetime
            self.isUrgent = isUrgent
        }
    }

    /// The record that is kept of each delivery.
    package enum Receipts: String, Sendable, CaseIterable {
        /// One receipt for each delivery.
        case all
        /// Exact counters, and receipts of failures.
        case failures
    }
}

/// What a request does to Live Activities.
extension JSONObjectReader {
    /// The tokens of a Live Activity: a start goes to those of the attributes type, which the payload names; an update and an end to those
    /// of the activity, which the target names.
    mutating func purpose(of type: PushType?, activity: ActivityChange?, _ drafts: [ContentDraft]) -> Purpose? {
        guard let type else { return nil }
        guard type == .liveactivity else { return type.purpose }
        if let activity, activity.event != .start {
            return switch activity.subject {
            case .activity(let id): .activity(id: id)
            case .channel(let name): .channel(name: name)
            // Until ``NotificationRequest/namingActivity(of:in:)`` knows the activity.
            case .type(let type): .activityStart(type: type)
            }
        }
        let types = Set(drafts.map(\.startedType))
        if types.count > 1 { problem("locales", "conflict", "every locale starts the same attributes type") }
        return (types.first ?? nil).map { .activityStart(type: $0) }
    }

    /// A start may name its activity, beside the user or the installation that it goes to. An update and an end go to an activity or a
    /// channel.
    mutating func activityChange(
        of type: PushType?, to target: NotificationRequest.Target?, _ drafts: [ContentDraft]
    ) -> ActivityChange? {
        if case .channel(let name, _) = target { return broadcastChange(of: type, channel: name, drafts) }
        let named = has("activity") ? activityName("activity") : nil
        let (id, ofUser) = (nameInTarget("activity"), nameInTarget("activity_type"))
        let namesActivity = ["activity", "activity_type"].contains { optionalValue("to")?[$0] != nil }
        guard let type, let target else { return nil }
        guard type == .liveactivity else {
            if has("activity") { problem("activity", "not_allowed", "only with push type liveactivity") }
            if id != nil { problem("to", step: "/activity", "not_allowed", "only with push type liveactivity") }
            if ofUser != nil { problem("to", step: "/activity_type", "not_allowed", "only with push type liveactivity") }
            return nil
        }
        let events = Set(drafts.compactMap(\.event))
        guard events.count <= 1 else {
            problem("locales", "conflict", "every locale has the same event")
            return nil
        }
        guard let event = events.first else { return nil }
        var subject: ActivityChange.Subject?
        if let id {
            subject = .activity(id)
            if ofUser != nil { problem("to", step: "/activity_type", "conflict", "not beside activity, which names one") }
        } else if let ofUser {
            if event == .start {
                guard drafts.allSatisfy({ $0.startedType == ofUser }) else {
                    problem("to", step: "/activity_type", "conflict", "the start has another attributes type")
                    return nil
                }
            } else {
                subject = .type(ofUser)
            }
        }
        if let subject {
            if event == .start {
                problem("to", step: "/activity", "not_allowed", "a start goes to a user, and names its activity beside that")
            }
            if named != nil { problem("activity", "not_allowed", "only with event start: the target names the activity") }
            for key in NotificationRequest.refusedInStates where has(key) {
                problem(key, "not_allowed", "an activity's states go at once, in quiet hours too, and a newer one supersedes an older one")
            }
            return ActivityChange(drafts, of: subject, event: event)
        }
        guard event == .start else {
            // A name that is none has been reported.
            guard !namesActivity else { return nil }
            problem(
                "to", "not_allowed",
                "an update and an end go to an activity: {\"user\": …, \"activity\": its id} or {\"user\": …, \"activity_type\": …}"
            )
            return nil
        }
        guard let named else { return nil }
        switch target {
        case .user, .installation: return ActivityChange(drafts, of: .activity(named), event: event)
        case .users, .installations, .tokens, .tags, .all, .channel:
            problem("activity", "not_allowed", "only with a start to one user or one installation, whose activity it is")
            return nil
        }
    }

    /// One state for all devices, at once.
    private mutating func broadcastChange(
        of type: PushType?, channel: String, _ drafts: [ContentDraft]
    ) -> ActivityChange? {
        for key in NotificationRequest.refusedInBroadcasts where has(key) {
            problem(key, "not_allowed", "a broadcast has one state for all devices, goes at once, and supersedes an older one")
        }
        guard let type, let draft = drafts.first else { return nil }
        guard type == .liveactivity, let event = draft.event, event != .start else {
            problems.add(
                JSONProblem(
                    pointer: draft.place.aps("event"), code: "unsupported_value",
                    detail: "update or end: a broadcast is to Live Activities that were started"))
            return nil
        }
        return ActivityChange(drafts, of: .channel(channel), event: event)
    }

    /// What `to` says beside a user or an installation.
    private mutating func nameInTarget(_ key: String) -> String? {
        guard optionalValue("to")?[key] != nil, var to = object("to") else { return nil }
        return to.activityName(key)
    }

    /// An activity's id, an attributes type or a channel's name: ``Purpose/isName(_:)``.
    mutating func activityName(_ key: String) -> String? { string(key, maximumBytes: Purpose.maximumNameBytes) }
}

extension ActivityChange {
    fileprivate init(_ drafts: [ContentDraft], of subject: Subject, event: Event) {
        let aps = drafts.first?.aps
        func seconds(_ key: String) -> Int64? { aps?[key]?.numberValue.flatMap { Int64(exactly: $0.rounded(.down)) } }
        self.init(
            subject: subject, event: event, timestamp: seconds("timestamp") ?? 0, staleDate: seconds("stale-date"),
            dismissalDate: seconds("dismissal-date"), attributesType: drafts.first?.startedType,
            channelID: aps?["input-push-channel"]?.stringValue)
        isStamped = drafts.allSatisfy(\.isStamped)
    }
}

extension NotificationRequest {
    /// A body with its lists and its locales; each payload has a limit of its own.
    package static let maximumBodyBytes = 1 << 20
    /// An upload's body: 100,000 names of 256 bytes fit.
    package static let maximumUploadBytes = 32 << 20
    /// The values of an upload's list, and any other body beside it.
    package static let maximumUploadValues = Target.maximumUploaded + maximumBodyBytes / CallBody.bytesOfValue

    /// Reads the body of `POST /v1/apps/{app}/notifications` or of a broadcast; every fault goes to `body.problems`.
    /// - Parameters:
    ///   - source: the bytes that the body was parsed from; payloads are cut out of them.
    ///   - now: UNIX milliseconds.
    /// - Returns: nil if a field is missing or wrong.
    package init?(_ body: inout JSONObjectReader, source: [UInt8], now: Int64, _ addressing: Addressing = .stated) {
        let target = body.target(addressing)
        let due = body.dueTime(now: now)
        // A local time may have passed in some zones before the request is made; their deliveries are sent now.
        let drafts = body.drafts(source: source, sendingTime: due.map { max(now, $0.earliest) })
        let pushType = body.pushType(of: drafts)
        let activity = body.activityChange(of: pushType, to: target, drafts)
        let purpose = body.purpose(of: pushType, activity: activity, drafts)
        let deviceReceipts = body.deviceReceipts(with: pushType)
        if let pushType {
            let maximum = target?.maximumPayloadBytes(of: pushType) ?? pushType.maximumPayloadBytes
            drafts.forEach { $0.check(as: pushType, of: maximum, deviceReceipts: deviceReceipts, body.problems) }
        }
        let priority = body.priority(for: pushType)
        let collapseID = body.collapseID()
        let expiry = body.expiry(due: due, now: now)
        let apnsExpiration = body.apnsExpiration(due: due)
        // A state replaces what the screen shows, so it waits for no quiet hours; a start alerts.
        let isState = activity.map { $0.event != .start } ?? false
        let isUrgent = body.optionalBool("urgent") ?? isState
        let lane = body.lane(for: target, pushType)
        let onUnknown = body.optionalChoice("on_unknown", of: PushJob.OnUnknown.self)
        let supersedeKey = body.supersedeKey(for: target)
        let receipts = body.optionalChoice("receipts", of: Receipts.self)
        body.finish()
        guard body.problems.isEmpty, let target, let pushType, let purpose, let due, let expiry, let lane,
            let content = RenderedContent(drafts)
        else { return nil }
        let startsActivity = drafts.contains { $0.event == .start }
        // Priority 10 counts against the system's budget.
        let standardPriority = pushType == .liveactivity && !startsActivity ? 5 : pushType.defaultPriority
        self.init(
            target: target, pushType: pushType, purpose: purpose, priority: priority ?? standardPriority, collapseID: collapseID,
            apnsExpiration: apnsExpiration ?? (pushType == .pushtotalk ? 0 : expiry.at / 1000), expiresAt: expiry.at,
            timing: due.timing(lifetime: expiry.lifetime, isUrgent: isUrgent), lane: lane,
            onUnknown: onUnknown ?? .standard(for: pushType, startsActivity: startsActivity),
            supersedeKey: supersedeKey, receipts: receipts, deviceReceipts: deviceReceipts, content: content, activity: activity)
        warnings = RequestWarnings(request: self, drafts: drafts, due: due, expiry: expiry, now: now).list()
    }
}

extension JSONObjectReader {
    fileprivate mutating func priority(for type: PushType?) -> Int? {
        guard let priority = optionalInteger("priority").map(Int.init) else { return nil }
        let allowed = (type?.allowedPriorities ?? [1, 5, 10]).sorted()
        if !allowed.contains(priority) {
            let words = allowed.map(String.init).joined(separator: ", ")
            problem("priority", "unsupported_value", type.map { "with push type \($0.rawValue): \(words)" } ?? "one of \(words)")
        }
        return priority
    }

    /// It is sent as a header, whose value has no blank at either end (RFC 9113 section 8.2.1): APNs would never answer. The other kind of
    /// blank, the tab, is a control character.
    fileprivate mutating func collapseID() -> String? {
        let text = optionalString("collapse_id", maximumBytes: 64)
        if let bytes = text?.utf8, bytes.first == UInt8(ascii: " ") || bytes.last == UInt8(ascii: " ") {
            problem("collapse_id", "invalid_character", "no blank is allowed at the beginning and at the end: it travels as a header")
        }
        return text
    }

    /// Any caller may choose a slower lane than the target's own; a faster one needs a right (``NotificationRequest/isLaneFaster``).
    fileprivate mutating func lane(for target: NotificationRequest.Target?, _ type: PushType?) -> Lane? {
        let stated = optionalChoice("lane", of: Lane.self)
        guard let target, let type else { return nil }
        if stated == .now, type == .background {
            problem("lane", "not_allowed", "a background push is never urgent: soon or bulk")
        }
        return stated ?? .derived(from: target, type)
    }

    /// Other pushes show nothing that a device could report.
    fileprivate mutating func deviceReceipts(with type: PushType?) -> Bool {
        let isAsked = optionalBool("device_receipts") ?? false
        if isAsked, let type, type != .alert { problem("device_receipts", "not_allowed", "only with push type alert") }
        return isAsked
    }

    fileprivate mutating func supersedeKey(for target: NotificationRequest.Target?) -> String? {
        let key = optionalString("supersede_key", maximumBytes: 64)
        guard key != nil, let target else { return key }
        switch target {
        case .user, .installation: break
        // The field is refused there with the others that make no sense.
        case .channel: break
        case .users, .installations, .tokens, .tags, .all:
            problem("supersede_key", "not_allowed", "only with a notification to one user or one installation")
        }
        return key
    }
}

extension NotificationRequest {
    /// Whether the caller asked for a faster lane than the target's own: an administrator's right, because all apps share the lane.
    package var isLaneFaster: Bool { lane.isFaster(than: .derived(from: target, pushType)) }

    /// - Throws: ``APIError`` 403 where the caller may not choose that lane.
    func checkLane(of caller: Caller) throws(APIError) {
        guard !isLaneFaster || caller.scopes.contains(.admin) else {
            throw APIError(
                .laneNotAllowed, "a faster lane than the target's own needs the scope admin; leave lane out, or choose a slower one")
        }
    }
}

extension NotificationRequest.Target {
    var namesUsers: Bool {
        switch self {
        case .user, .users: true
        case .installation, .installations, .tokens, .tags, .all, .channel: false
        }
    }
}

extension Lane {
    /// A push to one user or device waits for no other, and a push to many does not delay others. No user waits for a background push.
    package static func derived(from target: NotificationRequest.Target, _ type: PushType) -> Lane {
        switch target {
        case .user, .installation: type == .background ? .soon : .now
        // A broadcast is one push.
        case .channel(_, let fallback): fallback == nil ? .now : .soon
        case .users, .installations, .tokens: target.isLong ? .bulk : .soon
        case .tags, .all: .bulk
        }
    }

    package func isFaster(than other: Lane) -> Bool { speed > other.speed }

    private var speed: Int {
        switch self {
        case .now: 2
        case .soon: 1
        case .bulk: 0
        }
    }
}

extension PushJob.OnUnknown {
    /// The default if the sender does not say: the effect of a second copy on the device decides. No other code decides this.
    ///
    /// * A Live Activity's `start` twice shows two activities.
    /// * A call may ring twice, but only at once: a late ring is worse than none.
    /// * A second alert replaces the first (`apns-collapse-id`), and every other push only carries the newest state.
    static func standard(for type: PushType, startsActivity: Bool) -> Self {
        switch type {
        case .liveactivity: startsActivity ? .drop : .resend
        case .voip, .pushtotalk: .resendOnce
        case .alert, .background, .location, .complication, .fileprovider, .controls, .widgets, .mdm: .resend
        }
    }
}
