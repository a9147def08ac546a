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
        package var hint: String
        package var environment: String
        package var purpose: String
        package var registeredAt: Int64
        package var retired: Retirement?
        /// Shown only where ``write(to:app:tokens:)`` is told so.
        package var full: DeviceToken
    }

    package struct Retirement: Equatable, Sendable {
        package var at: Int64
        package var reason: String
    }
}

extension InstallationRecord {
    package func write(to writer: inout JSONWriter, app: AppSlug, tokens shown: TokenDisplay = .hints) {
        writer.object { object in
            object.field("app", app.text)
            object.field("id", id.description)
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
    fileprivate func write(to writer: inout JSONWriter, _ shown: TokenDisplay) {
        writer.object { object in
            if shown == .full { object.field("token", full.hex) }
            object.field("hint", hint)
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
        field(name, milliseconds.map { RFC3339.text(milliseconds: $0) })
    }
}
