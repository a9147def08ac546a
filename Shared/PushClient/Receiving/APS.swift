public import Foundation

/// The `aps` of a payload (Apple, "Generating a remote notification"). Unknown keys are ignored. A key that is absent, or whose value this
/// library does not understand, is nil: one odd value must not cost the notification, or the tap on it.
public struct APS: Decodable, Sendable, Hashable {
    /// The values of `interruption-level` (Apple, "UNNotificationInterruptionLevel").
    public enum InterruptionLevel: String, Decodable, Sendable, Hashable {
        case passive, active, critical
        case timeSensitive = "time-sensitive"
    }

    /// Key `alert`: the texts.
    public var alert: PushAlert?
    /// 0 removes the badge.
    public var badge: Int?
    /// Key `sound`. The system plays none if it is absent.
    public var sound: PushSound?
    /// Key `thread-id`, by which the system groups notifications.
    public var threadID: String?
    /// Key `category`: the identifier of a `UNNotificationCategory`, which has the action buttons.
    public var category: String?
    /// Key `content-available` is 1: the system may wake the app in the background.
    public var isContentAvailable = false
    /// Key `mutable-content` is 1: the service extension may change the notification before it appears.
    public var isMutableContent = false
    /// Key `interruption-level`. The system takes an absent one as `active`.
    public var interruptionLevel: InterruptionLevel?
    /// 0 to 1; of a Live Activity any number.
    public var relevanceScore: Double?
    /// Key `target-content-id`: the window to bring forward (`UNNotificationContent.targetContentIdentifier`).
    public var targetContentID: String?
    /// Key `filter-criteria`: by it the system decides whether the notification appears in the present Focus.
    public var filterCriteria: String?
    /// Set if this is a Live Activity's push.
    public var activity: ActivityUpdate?

    /// No key is set, as in a payload without `aps`.
    public init() {}

    private enum Key: String, CodingKey {
        case alert, badge, sound, category, event
        case threadID = "thread-id"
        case contentAvailable = "content-available"
        case mutableContent = "mutable-content"
        case interruptionLevel = "interruption-level"
        case relevanceScore = "relevance-score"
        case targetContentID = "target-content-id"
        case filterCriteria = "filter-criteria"
    }

    /// Throws only if `aps` is no JSON object.
    public init(from decoder: any Decoder) throws {
        let keys = try decoder.container(keyedBy: Key.self)
        func value<Value: Decodable>(_ key: Key) -> Value? { try? keys.decode(Value.self, forKey: key) }
        alert = value(.alert)
        badge = value(.badge)
        sound = value(.sound)
        threadID = value(.threadID)
        category = value(.category)
        isContentAvailable = value(.contentAvailable) == 1
        isMutableContent = value(.mutableContent) == 1
        interruptionLevel = value(.interruptionLevel)
        relevanceScore = value(.relevanceScore)
        targetContentID = value(.targetContentID)
        filterCriteria = value(.filterCriteria)
        activity = try? ActivityUpdate(from: decoder)
    }

    /// Nothing for the person to see or hear: a background update (Apple, "Pushing background updates to your App").
    public var isSilent: Bool { isContentAvailable && alert == nil && badge == nil && sound == nil }
}

/// The `alert`: a text, or an object with texts or keys of the app's localised texts.
public struct PushAlert: Decodable, Sendable, Hashable {
    /// A text, or the key of one in the app's `Localizable.strings` with its arguments.
    public enum Text: Sendable, Hashable {
        case plain(String)
        case localized(key: String, arguments: [String])
    }

    /// Key `title`, or `title-loc-key` with `title-loc-args`; nil for none.
    public var title: Text?
    /// Key `subtitle`, or `subtitle-loc-key` with `subtitle-loc-args`; nil for none.
    public var subtitle: Text?
    /// Key `body`, or `loc-key` with `loc-args`, or all of an `alert` that is a text; nil for none.
    public var body: Text?
    /// Key `launch-image`: the image or storyboard of the app that appears instead of its usual launch image.
    public var launchImage: String?

    private enum Key: String, CodingKey {
        case title, subtitle, body
        case launchImage = "launch-image"
        case titleKey = "title-loc-key"
        case titleArguments = "title-loc-args"
        case subtitleKey = "subtitle-loc-key"
        case subtitleArguments = "subtitle-loc-args"
        case bodyKey = "loc-key"
        case bodyArguments = "loc-args"
    }

    /// In a Live Activity's alert, title and body may each be such an object.
    private struct Nested: Decodable {
        var key: String
        var arguments: [String]?

        private enum CodingKeys: String, CodingKey {
            case key = "loc-key"
            case arguments = "loc-args"
        }
    }

    /// Throws if a value is of another type than Apple's; ``APS/alert`` is then nil.
    public init(from decoder: any Decoder) throws {
        if let text = try? decoder.singleValueContainer().decode(String.self) {
            body = .plain(text)
            return
        }
        let keys = try decoder.container(keyedBy: Key.self)
        title = try Self.text(keys, .title, .titleKey, .titleArguments)
        subtitle = try Self.text(keys, .subtitle, .subtitleKey, .subtitleArguments)
        body = try Self.text(keys, .body, .bodyKey, .bodyArguments)
        launchImage = try keys.decodeIfPresent(String.self, forKey: .launchImage)
    }

    private static func text(_ keys: KeyedDecodingContainer<Key>, _ plain: Key, _ key: Key, _ arguments: Key) throws -> Text? {
        if let key = try keys.decodeIfPresent(String.self, forKey: key) {
            return .localized(key: key, arguments: try keys.decodeIfPresent([String].self, forKey: arguments) ?? [])
        }
        if let nested = try? keys.decode(Nested.self, forKey: plain) {
            return .localized(key: nested.key, arguments: nested.arguments ?? [])
        }
        return try keys.decodeIfPresent(String.self, forKey: plain).map(Text.plain)
    }
}

/// The `sound`: a name, or an object for a critical alert.
public struct PushSound: Decodable, Sendable, Hashable {
    /// A file of the app, or `default`.
    public var name: String
    /// Key `critical` is 1: the system plays it also while the device is muted.
    public var isCritical = false
    /// 0 to 1; for critical alerts only.
    public var volume: Double?

    private enum Key: String, CodingKey {
        case name, critical, volume
    }

    /// A text is the name. An object without `name` has the name `default`.
    public init(from decoder: any Decoder) throws {
        if let name = try? decoder.singleValueContainer().decode(String.self) {
            self.name = name
            return
        }
        let keys = try decoder.container(keyedBy: Key.self)
        name = try keys.decodeIfPresent(String.self, forKey: .name) ?? "default"
        isCritical = try keys.decodeIfPresent(Int.self, forKey: .critical) == 1
        volume = try keys.decodeIfPresent(Double.self, forKey: .volume)
    }
}

/// What a Live Activity's push says (Apple, "Starting and updating Live Activities with ActivityKit push notifications").
public struct ActivityUpdate: Decodable, Sendable, Hashable {
    /// The values of `event`: what the push does with the Live Activity.
    public enum Event: String, Decodable, Sendable, Hashable {
        case start, update, end
    }

    /// Key `event`. Without it, ``APS/activity`` is nil.
    public var event: Event
    /// The device shows the newest.
    public var timestamp: Date?
    /// Key `stale-date`, in UNIX seconds: from then on the content counts as out of date.
    public var staleDate: Date?
    /// Key `dismissal-date`, in UNIX seconds: when the system removes the ended activity from the Lock Screen.
    public var dismissalDate: Date?
    /// Key `attributes-type`: the name of the app's `ActivityAttributes`, in a push that starts an activity.
    public var attributesType: String?

    private enum Key: String, CodingKey {
        case event, timestamp
        case staleDate = "stale-date"
        case dismissalDate = "dismissal-date"
        case attributesType = "attributes-type"
    }

    /// Throws if `event` is absent or unknown, or a value is of another type; ``APS/activity`` is then nil.
    public init(from decoder: any Decoder) throws {
        let keys = try decoder.container(keyedBy: Key.self)
        event = try keys.decode(Event.self, forKey: .event)
        // UNIX seconds.
        func date(_ key: Key) throws -> Date? {
            try keys.decodeIfPresent(Double.self, forKey: key).map { Date(timeIntervalSince1970: $0) }
        }
        timestamp = try date(.timestamp)
        staleDate = try date(.staleDate)
        dismissalDate = try date(.dismissalDate)
        attributesType = try keys.decodeIfPresent(String.self, forKey: .attributesType)
    }
}

/// How a notification appears that arrives while the app is in front.
public struct ForegroundPresentation: Sendable, Hashable {
    /// `UNNotificationPresentationOptions.banner`
    public var showsBanner: Bool
    /// `UNNotificationPresentationOptions.list`: it stays in the notification centre.
    public var isListed: Bool
    /// `UNNotificationPresentationOptions.sound`: the sound that the payload names.
    public var playsSound: Bool
    /// `UNNotificationPresentationOptions.badge`: the number that the payload names.
    public var setsBadge: Bool

    /// Without arguments, the notification does not appear.
    public init(showsBanner: Bool = false, isListed: Bool = false, playsSound: Bool = false, setsBadge: Bool = false) {
        self.showsBanner = showsBanner
        self.isListed = isListed
        self.playsSound = playsSound
        self.setsBadge = setsBadge
    }

    /// The person sees and hears nothing. ``PushClient/onNotification(_:)`` gets the notification all the same.
    public static let nothing = ForegroundPresentation()
    /// Banner, list, sound and badge.
    public static let everything = ForegroundPresentation(showsBanner: true, isListed: true, playsSound: true, setsBadge: true)

    /// The library's own decision; an app may give another function to the adaptor.
    ///
    /// - Parameter visibleThread: The `thread-id` of what the person looks at now, such as a conversation. Its own notifications only set
    ///   the badge: the app shows the news itself.
    public static func decide(_ aps: APS, visibleThread: String?) -> ForegroundPresentation {
        if aps.interruptionLevel == .critical { return .everything }
        if let visibleThread, aps.threadID == visibleThread { return ForegroundPresentation(setsBadge: true) }
        if aps.interruptionLevel == .passive { return ForegroundPresentation(isListed: true, setsBadge: true) }
        return .everything
    }
}
