import PushModel
package import StrictJSON

extension NotificationRequest {
    /// A body with its lists and its locales; each payload has a limit of its own.
    package static let maximumBodyBytes = 1 << 20
    /// An upload's body: 100,000 names of 256 bytes fit.
    package static let maximumUploadBytes = 32 << 20
    /// The values of an upload's list, and any other body beside it.
    package static let maximumUploadValues = Target.maximumUploaded + maximumBodyBytes / 2

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
        let activity =
            if case .channel(let name, let fallback) = target {
                body.broadcastChange(of: pushType, channel: name, fallback, drafts)
            } else {
                body.activityChange(of: pushType, to: target, drafts)
            }
        let purpose = body.purpose(of: pushType, activity: activity, drafts)
        let deviceReceipts = body.deviceReceipts(with: pushType)
        if let pushType {
            let maximum = target?.maximumPayloadBytes(of: pushType) ?? pushType.maximumPayloadBytes
            drafts.forEach { $0.check(as: pushType, of: maximum, namesJob: deviceReceipts, body.problems) }
        }
        let priority = body.priority(for: pushType)
        let collapseID = body.collapseID()
        let expiry = body.expiry(due: due, now: now)
        let apnsExpiration = body.apnsExpiration(due: due)
        let isUrgent = body.optionalBool("urgent") ?? false
        let lane = body.lane(for: target, pushType)
        let onUnknown = body.optionalChoice("on_unknown", of: PushJob.OnUnknown.self)
        let supersedeKey = body.supersedeKey(for: target)
        let receipts = body.optionalChoice("receipts", of: Receipts.self)
        body.finish()
        guard body.problems.isEmpty, let target, let pushType, let purpose, let due, let expiry, let lane,
            let content = NotificationContent(drafts)
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
        let text = name("collapse_id")
        if let bytes = text?.utf8, bytes.first == UInt8(ascii: " ") || bytes.last == UInt8(ascii: " ") {
            problem("collapse_id", "invalid_character", "no blank is allowed at the beginning and at the end: it travels as a header")
        }
        return text
    }

    /// 1 to 64 bytes, or more, without control characters.
    private mutating func name(_ key: String, maximumBytes: Int = 64) -> String? {
        guard let text = optionalString(key, maximumBytes: maximumBytes) else { return nil }
        if text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7f }) {
            problem(key, "invalid_character", "control characters are not allowed")
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

    /// The tokens of a Live Activity: a start goes to those of the attributes type, which the payload names; an update and an end to those of
    /// the activity, which the target names.
    fileprivate mutating func purpose(of type: PushType?, activity: ActivityChange?, _ drafts: [ContentDraft]) -> Purpose? {
        guard let type else { return nil }
        guard type == .liveactivity else { return type.purpose }
        if let activity, activity.event != .start {
            return switch activity.subject {
            case .activity(let id): .activity(id: id)
            case .channel(let name): .channel(name: name)
            // The name follows.
            case .type(let type): .activityStart(type: type)
            }
        }
        let types = Set(drafts.map(\.startedType))
        if types.count > 1 { problem("locales", "conflict", "every locale starts the same attributes type") }
        return (types.first ?? nil).map { .activityStart(type: $0) }
    }

    /// A start may name its activity, beside the user or the installation that it goes to. An update and an end go to an activity.
    fileprivate mutating func activityChange(
        of type: PushType?, to target: NotificationRequest.Target?, _ drafts: [ContentDraft]
    ) -> ActivityChange? {
        let named = has("activity") ? activityName("activity") : nil
        let ofUser = activityTypeOfTarget()
        guard let type, let target else { return nil }
        guard type == .liveactivity else {
            if has("activity") { problem("activity", "not_allowed", "only with push type liveactivity") }
            if case .activity = target { problem("to", step: "/activity", "not_allowed", "only with push type liveactivity") }
            if ofUser != nil { problem("to", step: "/activity_type", "not_allowed", "only with push type liveactivity") }
            return nil
        }
        let events = Set(drafts.compactMap(\.event))
        guard events.count <= 1 else {
            problem("locales", "conflict", "every locale has the same event")
            return nil
        }
        guard let event = events.first, let draft = drafts.first else { return nil }
        var subject: ActivityChange.Subject?
        if case .activity(let id) = target { subject = .activity(id) }
        if let ofUser {
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
            for key in ["not_before", "local_time", "supersede_key"] where has(key) {
                problem(key, "not_allowed", "an activity's states go at once, and a newer one supersedes an older one")
            }
            return ActivityChange(draft, of: subject, event: event)
        }
        guard event == .start else {
            problem(
                "to", "not_allowed", "an update and an end go to an activity: {\"activity\": its id} or {\"user\": …, \"activity_type\": …}"
            )
            return nil
        }
        guard let named else { return nil }
        switch target {
        case .user, .installation: return ActivityChange(draft, of: .activity(named), event: event)
        case .users, .installations, .tokens, .tags, .all, .activity, .channel:
            problem("activity", "not_allowed", "only with a start to one user or one installation, whose activity it is")
            return nil
        }
    }

    /// One state for all devices, at once.
    fileprivate mutating func broadcastChange(
        of type: PushType?, channel: String, _ fallback: NotificationRequest.Fallback?, _ drafts: [ContentDraft]
    ) -> ActivityChange? {
        for key in ["activity", "locales", "not_before", "local_time", "urgent", "collapse_id", "supersede_key"] where has(key) {
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
        return ActivityChange(draft, of: .channel(channel), event: event)
    }

    /// Other pushes show nothing that a device could report.
    fileprivate mutating func deviceReceipts(with type: PushType?) -> Bool {
        let isAsked = optionalBool("device_receipts") ?? false
        if isAsked, let type, type != .alert { problem("device_receipts", "not_allowed", "only with push type alert") }
        return isAsked
    }

    fileprivate mutating func supersedeKey(for target: NotificationRequest.Target?) -> String? {
        let key = name("supersede_key")
        guard key != nil, let target else { return key }
        switch target {
        case .user, .installation: break
        // The field is refused there with the others that make no sense.
        case .activity, .channel: break
        case .users, .installations, .tokens, .tags, .all:
            problem("supersede_key", "not_allowed", "only with a notification to one user or one installation")
        }
        return key
    }
}

extension JSONObjectReader {
    /// An activity's id, an attributes type or a channel's name: ``Purpose/isName(_:)``.
    mutating func activityName(_ key: String) -> String? {
        guard let id = string(key, maximumBytes: Purpose.maximumNameBytes) else { return nil }
        if Purpose.isName(id) { return id }
        problem(key, "invalid_character", "1 to \(Purpose.maximumNameBytes) bytes without control characters")
        return nil
    }
}

extension ActivityChange {
    fileprivate init(_ draft: ContentDraft, of subject: Subject, event: Event) {
        let aps = draft.aps
        func seconds(_ key: String) -> Int64? { aps?[key]?.numberValue.flatMap { Int64(exactly: $0.rounded(.down)) } }
        self.init(
            subject: subject, event: event, timestamp: seconds("timestamp") ?? 0, staleDate: seconds("stale-date"),
            dismissalDate: seconds("dismissal-date"), attributesType: draft.startedType,
            channelID: aps?["input-push-channel"]?.stringValue)
    }
}
