import PushModel
package import StrictJSON

extension NotificationRequest {
    /// A job may live no longer: fences are kept for as long (DESIGN.md section 7).
    package static let maximumLifetimeMs: Int64 = 72 * 3_600_000
    package static let defaultLifetimeMs: Int64 = 24 * 3_600_000

    /// Reads the body of `POST /v1/apps/{app}/notifications`; every fault goes to `body.problems`.
    /// - Parameters:
    ///   - source: the bytes that the body was parsed from; the payload is cut out of them.
    ///   - now: UNIX milliseconds.
    /// - Returns: nil where something is missing or wrong.
    package init?(_ body: inout JSONObjectReader, source: [UInt8], now: Int64) {
        let target = body.target()
        // A type that is there but wrong has its own problem; checking the payload against a guess would only add noise.
        let namesType = body.has("push_type")
        let statedType = body.optionalChoice("push_type", of: PushType.self)
        let pushType = statedType ?? (namesType && body.optionalValue("push_type") != nil ? nil : .alert)
        let priority = body.priority(for: pushType)
        let collapseID = body.collapseID()
        let expiresAt = body.expiry(now: now)
        let apnsExpiration = body.apnsExpiration(now: now)
        let lane = body.optionalChoice("lane", of: Lane.self) ?? .now
        let onUnknown = body.optionalChoice("on_unknown", of: PushJob.OnUnknown.self) ?? .resend
        let payload = body.value("payload")
        if let payload, let pushType { PayloadRules(type: pushType, problems: body.problems).check(payload) }
        body.finish()
        guard body.problems.isEmpty, let target, let pushType, let payload, let expiresAt else { return nil }
        self.init(
            target: target, pushType: pushType, priority: priority ?? pushType.defaultPriority, collapseID: collapseID,
            apnsExpiration: apnsExpiration ?? (pushType == .pushtotalk ? 0 : expiresAt / 1000), expiresAt: expiresAt, lane: lane,
            onUnknown: onUnknown, content: NotificationContent(payload: Array(source[payload.range])))
    }
}

extension JSONObjectReader {
    fileprivate mutating func target() -> NotificationRequest.Target? {
        guard var to = object("to") else { return nil }
        let user = to.optionalString("user", maximumBytes: StatedUser.maximumBytes)
        let text = to.optionalString("installation", maximumBytes: 36)
        let hasBoth = to.optionalValue("user") != nil && to.optionalValue("installation") != nil
        let hasNone = to.optionalValue("user") == nil && to.optionalValue("installation") == nil
        to.finish()
        if hasBoth || hasNone {
            problem("to", "ambiguous_target", "exactly one of user and installation")
            return nil
        }
        if let user { return .user(user) }
        guard let text else { return nil }
        guard let installation = PushID(text) else {
            to.problem("installation", "invalid_id", "a UUID")
            return nil
        }
        return .installation(installation)
    }

    fileprivate mutating func priority(for type: PushType?) -> Int? {
        guard let priority = optionalInteger("priority", in: 1...10) else { return nil }
        if let type, !type.allowedPriorities.contains(Int(priority)) {
            let allowed = type.allowedPriorities.sorted().map(String.init).joined(separator: ", ")
            problem("priority", "unsupported_value", "with push type \(type.rawValue): \(allowed)")
        }
        return Int(priority)
    }

    /// It travels as a header, hence no control characters.
    fileprivate mutating func collapseID() -> String? {
        guard let text = optionalString("collapse_id", maximumBytes: 64) else { return nil }
        if text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7f }) {
            problem("collapse_id", "invalid_character", "control characters are not allowed")
        }
        return text
    }

    fileprivate mutating func expiry(now: Int64) -> Int64? {
        let maximum = NotificationRequest.maximumLifetimeMs
        let seconds = optionalInteger("ttl_seconds", in: 1...maximum / 1000)
        let text = optionalString("expires_at", maximumBytes: 64)
        if optionalValue("ttl_seconds") != nil, optionalValue("expires_at") != nil {
            problem("ttl_seconds", "conflict", "only one of ttl_seconds and expires_at")
            return nil
        }
        if let seconds { return now + seconds * 1000 }
        guard let text else { return now + NotificationRequest.defaultLifetimeMs }
        guard let moment = RFC3339.milliseconds(text) else {
            problem("expires_at", "invalid_time", "an RFC 3339 date and time")
            return nil
        }
        guard moment > now, moment <= now + maximum else {
            problem("expires_at", "out_of_range", "in the future, at most 72 hours from now")
            return nil
        }
        return moment
    }

    fileprivate mutating func apnsExpiration(now: Int64) -> Int64? {
        // Thirty days is how long APNs stores at most (APNS.md section 2).
        guard let seconds = optionalInteger("apns_expiration", in: 0...now / 1000 + 30 * 86_400) else { return nil }
        if seconds != 0, seconds <= now / 1000 {
            problem("apns_expiration", "out_of_range", "0, or a time in the future in UNIX seconds")
        }
        return seconds
    }
}
