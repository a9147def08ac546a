import PushModel
import StrictJSON
import TokenServiceRegistry

extension NotificationRequest.Target {
    /// The longest list; more users or installations are an upload, or a tag.
    package static let maximumListed = 1000
    /// How many users or installations an upload may name.
    package static let maximumUploaded = 100_000

    /// Nil for tags, for the whole app and for a channel: fan-out finds how many there are.
    var count: Int? {
        switch self {
        case .user, .installation: 1
        case .users(let users): users.count
        case .installations(let installations): installations.count
        case .tokens(let tokens): tokens.count
        case .tags, .all, .channel: nil
        }
    }

    /// A broadcast may be larger than the same push to a device (Apple, "Sending broadcast push notification requests to APNs").
    func maximumPayloadBytes(of type: PushType) -> Int {
        if case .channel(_, nil) = self { return Self.maximumBroadcastBytes }
        return type.maximumPayloadBytes
    }
    private static let maximumBroadcastBytes = 5120

    /// More than an ordinary request may name: wherever the size matters, it is treated as an audience.
    var isLong: Bool { count.map { $0 > Self.maximumListed } ?? false }
}

extension JSONObjectReader {
    mutating func target(_ addressing: NotificationRequest.Addressing) -> NotificationRequest.Target? {
        switch addressing {
        case .stated: target(isUpload: false)
        case .upload: target(isUpload: true)
        case .channel(let name): .channel(name, optionalChoice("fallback", of: NotificationRequest.Fallback.self))
        }
    }

    /// Exactly one kind of target. A name that a list repeats counts once: lists come out of joins.
    /// - Parameter isUpload: Only users and installations, and more of them.
    private mutating func target(isUpload: Bool) -> NotificationRequest.Target? {
        guard var to = object("to") else { return nil }
        let kinds = ["user", "users", "installation", "installations", "tokens", "tags", "all"]
        let stated = kinds.filter { to.optionalValue($0) != nil }
        let namesActivity = to.has("activity")
        if to.has("activity_type"), stated != ["user"] { to.problem("activity_type", "not_allowed", "only beside user") }
        if namesActivity, !stated.isEmpty, stated != ["user"], stated != ["installation"] {
            to.problem("activity", "not_allowed", "only beside the user, or the installation without a user, whose it is")
        }
        to.finish()
        if namesActivity, stated.isEmpty {
            to.problem("user", "missing", "whose Live Activity: a user's, or of an installation that has no user. Others may have the name")
            return nil
        }
        guard stated.count == 1 else {
            problem("to", "ambiguous_target", "exactly one of user, users, installation, installations, tokens, tags and all")
            return nil
        }
        guard !isUpload || stated[0] == "users" || stated[0] == "installations" else {
            problem("to", "not_allowed", "an upload is to users or installations; …/notifications takes everything else")
            return nil
        }
        let maximum = isUpload ? NotificationRequest.Target.maximumUploaded : NotificationRequest.Target.maximumListed
        switch stated[0] {
        case "user": return to.string("user", maximumBytes: StatedUser.maximumBytes).map { .user($0) }
        case "users": return to.users(maximum).map { .users($0) }
        case "installation": return to.installation().map { .installation($0) }
        case "installations": return to.installations(maximum).map { .installations($0) }
        case "tokens": return to.deviceTokens().map { .tokens($0) }
        case "tags": return to.tagExpression().map { .tags($0) }
        default: return to.everybody()
        }
    }

    private mutating func everybody() -> NotificationRequest.Target? {
        guard let all = bool("all") else { return nil }
        if !all { problem("all", "unsupported_value", "true, or not at all") }
        return all ? .all : nil
    }

    private mutating func users(_ maximum: Int) -> [String]? {
        // By bytes, as the database compares them (``ExactText``).
        listed("users", maximum, maximumBytes: StatedUser.maximumBytes)?.firstOfEach { Array($0.utf8) }
    }

    private mutating func installation() -> PushID? {
        guard let text = string("installation", maximumBytes: 36) else { return nil }
        let id = PushID(text)
        if id == nil { problem("installation", "invalid_id", "a UUID") }
        return id
    }

    private mutating func installations(_ maximum: Int) -> [PushID]? {
        listed("installations", maximum, maximumBytes: 36, "invalid_id", "a UUID") { PushID($0) }
    }

    private mutating func deviceTokens() -> [DeviceToken]? {
        listed(
            "tokens", NotificationRequest.Target.maximumListed, maximumBytes: 2 * DeviceToken.maximumBytes, "invalid_token",
            "an even number of hex digits"
        ) { DeviceToken(hex: $0) }
    }

    private mutating func tagExpression() -> TagExpression? {
        // It may stand on several lines. No tag in it has a control character.
        guard let text = string("tags", maximumBytes: TagExpression.maximumBytes, isProse: true) else { return nil }
        do {
            return try TagExpression(text)
        } catch {
            problem("tags", "invalid_expression", error.description)
            return nil
        }
    }

    /// An empty list is refused: a list from which a filter has removed every member must not look like a success.
    private mutating func listed(_ key: String, _ maximum: Int, maximumBytes: Int) -> [String]? {
        let uploaded = NotificationRequest.Target.maximumUploaded
        if key != "tokens", maximum < uploaded, let count = optionalValue(key)?.arrayValue?.count, count > maximum {
            problem(key, "too_many", "at most \(maximum) elements; POST …/notifications/upload takes \(uploaded)")
            return nil
        }
        guard let texts = strings(key, maximumCount: maximum, maximumBytes: maximumBytes) else { return nil }
        if texts.isEmpty { problem(key, "too_few", "at least one") }
        return texts
    }

    private mutating func listed<Element: Hashable>(
        _ key: String, _ maximum: Int, maximumBytes: Int, _ code: String, _ detail: String, _ read: (String) -> Element?
    ) -> [Element]? {
        guard let texts = listed(key, maximum, maximumBytes: maximumBytes) else { return nil }
        var elements: [Element] = []
        for (index, text) in texts.enumerated() {
            if let element = read(text) { elements.append(element) } else { problem(key, step: "/\(index)", code, detail) }
        }
        return elements.firstOfEach { $0 }
    }
}

extension Array {
    /// Without those whose key an earlier one has.
    fileprivate func firstOfEach<Key: Hashable>(_ key: (Element) -> Key) -> [Element] {
        var seen = Set<Key>(minimumCapacity: count)
        return filter { seen.insert(key($0)).inserted }
    }
}
