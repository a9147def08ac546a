import OpenSSL
package import PushModel
package import StrictJSON

/// An installation as the API shows it. Times are UNIX milliseconds.
package struct InstallationRecord: Equatable, Sendable {
    package var id: PushID
    package var user: String?
    package var ownerEpoch: Int64
    package var tokens: [Token]
    package var throttledUntil: Int64?
    package var registeredAt: Int64
    package var createdAt: Int64
    package var profile: InstallationProfile
    package var fence: FenceState

    package struct Token: Equatable, Sendable {
        package var token: DeviceToken
        package var environment: String
        package var purpose: String
        package var registeredAt: Int64
        package var retired: Retirement?
    }

    package struct Retirement: Equatable, Sendable {
        package var at: Int64
        package var reason: String
    }
}

extension InstallationRecord {
    init(_ row: InstallationState, tokens: [TokenState]) {
        let order = tokens.sorted { left, right in
            guard (left.retired == nil) == (right.retired == nil) else { return left.retired == nil }
            return (right.registeredAt, left.id ?? .max) < (left.registeredAt, right.id ?? .max)
        }
        self.init(
            id: row.key.id, user: row.owner, ownerEpoch: row.epoch, tokens: order.map { Token($0) }, throttledUntil: row.throttledUntil,
            registeredAt: row.registeredAt, createdAt: row.createdAt, profile: row.profile, fence: row.fence)
    }

    /// A strong entity tag (RFC 9110 section 8.8.3) of what callers may change. Moments, and what APNs asked for, do not count: a
    /// refresh by the device must not get in the way of a change by a backend.
    package var etag: String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(256)
        func add(_ text: String?) {
            bytes.append(contentsOf: (text ?? "").utf8)
            bytes.append(text == nil ? 0 : 1)
        }
        add(user)
        add(String(ownerEpoch))
        add(profile.locale)
        add(profile.timeZone)
        add(profile.appVersion)
        add(profile.osVersion)
        add(profile.deviceModel)
        profile.tags.forEach(add)
        let ordered =
            tokens.count < 2
            ? tokens : tokens.sorted { ($0.token.hex, $0.environment, $0.purpose) < ($1.token.hex, $1.environment, $1.purpose) }
        for token in ordered {
            add(token.environment)
            add(token.purpose)
            add(token.retired?.reason)
            bytes.append(contentsOf: token.token.bytes)
        }
        return "\"" + Base64URL.encode(Array(Digest.sha256(bytes).prefix(12))) + "\""
    }

    package func write(to writer: inout JSONWriter, app: AppSlug, tokens shown: TokenDisplay = .hints) {
        writer.object { object in
            object.field("app", app.text)
            object.plainField("id") { id.append(to: &$0) }
            if let user { object.field("user", user) } else { object.null("user") }
            object.field("owner_epoch", ownerEpoch)
            object.array("tokens") { array in
                for token in tokens { token.write(to: &array, shown) }
            }
            object.time("throttled_until", throttledUntil)
            object.time("registered_at", registeredAt)
            object.time("created_at", createdAt)
            object.field("locale", profile.locale)
            object.field("time_zone", profile.timeZone)
            object.field("app_version", profile.appVersion)
            object.field("os_version", profile.osVersion)
            object.field("device_model", profile.deviceModel)
            object.field("tags", profile.tags)
            object.field("fence", fence.rawValue)
        }
    }
}

extension InstallationRecord.Token {
    init(_ token: TokenState) {
        self.init(
            token: token.token, environment: token.environment.rawValue, purpose: token.purpose.rawValue,
            registeredAt: token.registeredAt, retired: token.retired.map { .init(at: $0.at, reason: $0.reason.rawValue) })
    }

    fileprivate func write(to writer: inout JSONWriter, _ shown: TokenDisplay) {
        writer.object { object in
            if shown == .full { object.field("token", token.hex) }
            object.field("hint", token.hint)
            object.field("environment", environment)
            object.field("purpose", purpose)
            object.field("state", retired == nil ? "active" : "retired")
            object.time("registered_at", registeredAt)
            object.time("retired_at", retired?.at)
            object.field("retired_reason", retired?.reason)
        }
    }
}

extension JSONWriter {
    /// A moment as RFC 3339 text; nothing at all where it is nil.
    package mutating func time(_ name: String, _ milliseconds: Int64?) {
        guard let milliseconds else { return }
        plainField(name) { RFC3339.append(milliseconds: milliseconds, to: &$0) }
    }
}
