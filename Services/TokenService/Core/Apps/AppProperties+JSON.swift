import PushModel
import StrictJSON

extension JSONObjectReader {
    /// `slug` and every property of a new app.
    mutating func newApp() -> (AppSlug, AppProperties)? {
        let slug = string("slug", maximumBytes: 64).flatMap { text -> AppSlug? in
            let slug = AppSlug(text)
            if slug == nil { problem("slug", "invalid_character", AppSlug.rule) }
            return slug
        }
        let bundleID = bundleID()
        let policy = choice("device_policy", of: DevicePolicy.self)
        let environments = environments()
        let days = optionalInteger("stale_after_days", in: AppProperties.staleAfterDays)
        let removesStale = optionalBool("removes_stale") ?? false
        let eventStream = has("event_stream") ? eventStream() : []
        finish()
        guard let slug, let bundleID, let policy, let environments, let eventStream else { return nil }
        return (
            slug,
            AppProperties(
                bundleID: bundleID, devicePolicy: policy, environments: environments, staleAfterDays: days.map { Int($0) },
                removesStale: removesStale, eventStream: eventStream)
        )
    }

    /// A merge patch: what it does not name stays, and null means none, which only `stale_after_days` may be.
    mutating func appChange() -> AppChange? {
        var change = AppChange()
        if has("bundle_id") { change.bundleID = bundleID() }
        if has("device_policy") { change.devicePolicy = choice("device_policy", of: DevicePolicy.self) }
        if has("environments") { change.environments = environments() }
        if has("stale_after_days") {
            change.staleAfterDays = .some(optionalInteger("stale_after_days", in: AppProperties.staleAfterDays).map { Int($0) })
        }
        if has("removes_stale") { change.removesStale = bool("removes_stale") }
        if has("event_stream") { change.eventStream = eventStream() }
        finish()
        return change
    }

    private mutating func bundleID() -> String? {
        guard let bundleID = string("bundle_id", maximumBytes: AppProperties.maximumBundleIDBytes) else { return nil }
        if bundleID.utf8.allSatisfy(Self.isBundleIDCharacter) { return bundleID }
        problem("bundle_id", "invalid_character", "letters, digits, hyphen, underscore and full stop")
        return nil
    }

    private mutating func environments() -> [APNsEnvironment]? {
        guard let words = strings("environments", maximumCount: 2, maximumBytes: 16) else { return nil }
        let environments = words.compactMap(APNsEnvironment.init(rawValue:))
        if environments.count == words.count, Set(words).count == words.count, !words.isEmpty { return environments }
        problem("environments", "unsupported_value", "one or both of production and sandbox")
        return nil
    }

    private mutating func eventStream() -> [EventLog]? {
        guard let words = strings("event_stream", maximumCount: EventLog.allCases.count, maximumBytes: 16) else { return nil }
        let logs = words.compactMap(EventLog.init(rawValue:))
        if logs.count == words.count, Set(words).count == words.count { return logs }
        problem("event_stream", "unsupported_value", "notifications, installations, both or none")
        return nil
    }

    /// The bundle id becomes a header's value.
    private static func isBundleIDCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
            true
        default: false
        }
    }
}

extension App {
    func write(warnings: [String]? = nil, to writer: inout JSONWriter) {
        writer.object { object in
            object.field("slug", slug.text)
            object.field("bundle_id", bundleID)
            object.field("device_policy", devicePolicy.rawValue)
            object.field("environments", environments.map(\.rawValue))
            if let staleAfterDays { object.field("stale_after_days", staleAfterDays) } else { object.null("stale_after_days") }
            object.field("removes_stale", removesStale)
            object.field("event_stream", eventStream.map(\.rawValue))
            guard let warnings else { return }
            object.array("warnings") { array in
                for warning in warnings {
                    array.object { object in
                        object.field("code", "no_credential")
                        object.field("detail", warning)
                    }
                }
            }
        }
    }
}
