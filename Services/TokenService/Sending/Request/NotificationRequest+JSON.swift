import PushModel
package import StrictJSON
import TokenServiceApps
import TokenServiceRegistry

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
            drafts.forEach { $0.check(as: pushType, of: maximum, namesJob: deviceReceipts, body.problems) }
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
