import PushModel
import StrictJSON
import TokenServiceRegistry

/// What a request does to Live Activities.
extension JSONObjectReader {
    /// The tokens of a Live Activity: a start goes to those of the attributes type, which the payload names; an update and an end to those of
    /// the activity, which the target names.
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
            for key in ["not_before", "local_time", "urgent", "supersede_key"] where has(key) {
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
