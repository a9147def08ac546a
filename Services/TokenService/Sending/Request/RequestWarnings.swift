import PushModel
import StrictJSON
import TokenServiceRegistry

/// Finds the legal but doubtful parts of a correct request.
struct RequestWarnings {
    /// A background push that has to arrive within less than this is urgent, even if the request does not say so.
    private static let shortLifetimeMs: Int64 = 10 * 60_000
    /// A call rings no longer.
    private static let callSeconds: Int64 = 60
    private static let dismissalSeconds: Int64 = 4 * 3600

    let request: NotificationRequest
    let drafts: [ContentDraft]
    let due: DueTime
    let expiry: Expiry
    let now: Int64

    func list() -> [NotificationWarning] {
        var warnings = ofTime()
        switch request.pushType {
        case .background: warnings += ofBackground()
        case .voip:
            if request.apnsExpiration > due.latest / 1000 + Self.callSeconds { warnings.append(.init(.voipStored, at: "/apns_expiration")) }
        case .pushtotalk:
            if request.apnsExpiration != 0 { warnings.append(.init(.pushToTalkStored, at: "/apns_expiration")) }
        default: break
        }
        return warnings + drafts.flatMap { ofContent($0) }
    }

    private func ofTime() -> [NotificationWarning] {
        var warnings: [NotificationWarning] = []
        // The default expiry cannot contradict the sender; nor can one that was rounded up to whole seconds.
        if expiry.source != .standard, request.apnsExpiration > (expiry.at + 999) / 1000 {
            warnings.append(.init(.storedPastExpiry, at: "/apns_expiration"))
        }
        guard due.localTime != nil else { return warnings }
        if due.earliest <= now { warnings.append(.init(.localTimePassed, at: "/local_time")) }
        if expiry.at <= due.latest { warnings.append(.init(.expiresBeforeLastTimeZone, at: "/expires_at")) }
        return warnings
    }

    private func ofBackground() -> [NotificationWarning] {
        var warnings: [NotificationWarning] = []
        if request.timing.isUrgent { warnings.append(.init(.timeCriticalBackground, at: "/urgent")) }
        if expiry.source != .standard, expiry.at - due.latest < Self.shortLifetimeMs {
            warnings.append(.init(.timeCriticalBackground, at: expiry.source == .ttlSeconds ? "/ttl_seconds" : "/expires_at"))
        }
        return warnings
    }

    private func ofContent(_ draft: ContentDraft) -> [NotificationWarning] {
        guard let aps = draft.aps else { return [] }
        let level = aps["interruption-level"]?.stringValue
        var warnings: [NotificationWarning] = []
        if expiry.source == .standard, level == "time-sensitive" || level == "critical" {
            warnings.append(.init(.expiryNotStated, at: draft.place.aps("interruption-level")))
        }
        if let alert = aps["alert"] {
            for key in ["title-loc", "subtitle-loc", "loc"] where alert[key + "-args"] != nil && alert[key + "-key"] == nil {
                warnings.append(.init(.argumentsWithoutKey, at: draft.place.aps("alert/\(key)-args")))
            }
        }
        if request.pushType == .liveactivity { warnings += ofActivity(aps, draft.place) }
        return warnings + ofKeys(draft, aps)
    }

    /// Keys that have no effect where they stand.
    private func ofKeys(_ draft: ContentDraft, _ aps: JSONValue) -> [NotificationWarning] {
        let place = draft.place
        func step(_ key: String) -> String { String(pointerStep(key).dropFirst()) }
        var warnings: [NotificationWarning] = []
        for (key, _) in aps.objectValue ?? [] where !PushType.isKnown(key, to: request.pushType) {
            warnings.append(NotificationWarning(.ignoredKey, at: place.aps(step(key))))
        }
        for (key, _) in aps["alert"]?.objectValue ?? [] where !request.pushType.isKnownInAlert(key) {
            let code: NotificationWarning.Code = PushType.apsKeys.contains(key) ? .misplacedKey : .ignoredKey
            warnings.append(NotificationWarning(code, at: place.aps("alert/\(step(key))")))
        }
        guard [.alert, .background, .liveactivity].contains(request.pushType) else { return warnings }
        // The keys of a Live Activity alone (`event`, `timestamp`) are good names for keys of one's own.
        for (key, _) in draft.value.objectValue ?? [] where PushType.notificationKeys.contains(key) {
            warnings.append(NotificationWarning(.misplacedKey, at: place.custom(step(key))))
        }
        return warnings
    }

    private func ofActivity(_ aps: JSONValue, _ place: ContentPlace) -> [NotificationWarning] {
        var warnings: [NotificationWarning] = []
        let event = aps["event"]?.stringValue
        if event == "update", request.priority == 10, aps["alert"] == nil { warnings.append(.init(.liveActivityBudget, at: "/priority")) }
        if aps["content-state"] == nil { warnings.append(.init(.liveActivityWithoutState, at: place.aps("content-state"))) }
        if let dismissal = aps["dismissal-date"]?.numberValue, dismissal > Double(due.latest / 1000 + Self.dismissalSeconds) {
            warnings.append(.init(.lateDismissal, at: place.aps("dismissal-date")))
        }
        return warnings
    }
}

extension PushType {
    /// Apple's keys of `aps` in a notification.
    fileprivate static let notificationKeys = Set(ContentField.all.filter { $0.pushes.contains(.notification) }.map(\.key))
    private static let activityKeys = Set(ContentField.all.filter { $0.pushes.contains(.activity) }.map(\.key))
    /// Apple's keys of `aps` in any push.
    fileprivate static let apsKeys = Set(ContentField.all.map(\.key))
    fileprivate static let alertKeys = Set(ContentField.alert.map(\.key))

    /// Whether a key has an effect in the alert of a push of that type: a Live Activity has its sound there.
    fileprivate func isKnownInAlert(_ key: String) -> Bool { Self.alertKeys.contains(key) || self == .liveactivity && key == "sound" }

    /// Whether a key of `aps` has an effect in a push of that type. For most types Apple does not document which keys do: every key counts.
    fileprivate static func isKnown(_ key: String, to type: PushType) -> Bool {
        switch type {
        case .alert: notificationKeys.contains(key)
        case .liveactivity: activityKeys.contains(key)
        case .controls, .widgets: key == "content-changed"
        case .background, .voip, .pushtotalk, .location, .complication, .fileprovider, .mdm: true
        }
    }
}

extension NotificationRequest {
    /// The system throttles more than two or three within an hour (Apple, "Pushing background updates to your App").
    private static let backgroundPushesPerHour = 3

    /// - Parameter recentBackgroundPushes: How many the same device, or each of the same user's, was sent within the last hour.
    package func warnings(recentBackgroundPushes: Int) -> [NotificationWarning] {
        guard pushType == .background, recentBackgroundPushes >= Self.backgroundPushesPerHour else { return [] }
        return [NotificationWarning(.frequentBackground, at: "/to")]
    }

    /// - Parameter audience: Of this request.
    package func warnings(audience: AudienceEstimate) -> [NotificationWarning] {
        switch target {
        case .user, .installation: break
        case .users, .installations, .tokens, .tags, .all, .channel: return []
        }
        guard audience.reachable > 0, audience.displays?[.notAtAll] == audience.reachable else { return [] }
        return [NotificationWarning(.notShown, at: "/to")]
    }
}
