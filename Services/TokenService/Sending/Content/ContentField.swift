import PushModel
import StrictJSON
import TokenServiceKit
import TokenServiceRegistry

/// A key of Apple's `aps` or `alert`, and our field for it. The schema, the rendering, the checks, the derived push type and the warnings
/// about raw payloads come from here, so a new field is one element of ``all`` or ``alert``.
///
/// A class, so that a loop over the fields copies no schema.
final class ContentField: Sendable {
    /// Ours: Apple's with other separators.
    let name: String
    let key: String
    let kind: Kind
    /// The pushes in which the key has an effect.
    let pushes: Pushes
    /// The only event of a Live Activity that may have it.
    let event: ActivityChange.Event?
    /// Whether the key shows which of the ``pushes`` a body is.
    let isSign: Bool
    /// Nil if only a raw payload may have the key.
    let schema: JSONSchema.Field?
    /// The place among the fields of its kind, in the order of faults.
    private let rank: Int

    /// What a value is. Faults are reported in this order.
    enum Kind: Int {
        case alert, badge, sound, headline, text
        case wake, flag
        case texts, level, score
        case moment, object, typeName, one, channel
        case change, other

        /// How a typed value is rendered. A payload has its keys in this order.
        enum Form: Int { case own, value, wake, flag, truth, seconds }

        var form: Form {
            switch self {
            case .alert, .badge, .sound: .own
            case .headline, .text, .texts, .level, .score, .object, .typeName, .channel, .other: .value
            case .wake: .wake
            case .flag, .one: .flag
            case .change: .truth
            case .moment: .seconds
            }
        }
    }

    struct Pushes: OptionSet {
        let rawValue: Int
        static let notification = Pushes(rawValue: 1)
        static let activity = Pushes(rawValue: 2)
    }

    private init(
        _ name: String, _ kind: Kind, in pushes: Pushes = [.notification, .activity], _ schema: JSONSchema? = nil,
        _ description: String? = nil, only event: ActivityChange.Event? = nil, isSign: Bool = true, rank: Int = 0
    ) {
        self.name = name
        key = name.replacing("_", with: "-")
        self.kind = kind
        self.pushes = pushes
        self.event = event
        self.isSign = isSign
        self.schema = schema.map { .omissible(name, $0, description) }
        self.rank = rank
    }

    /// The keys of `aps`, in the order of the schema.
    static let all: [ContentField] = [
        ContentField("alert", .alert, .oneOf(.string(), alertSchema)),
        ContentField("badge", .badge, in: .notification, .count, "0 removes it."),
        // A Live Activity has its sound in the alert.
        ContentField(
            "sound", .sound, in: .notification, .oneOf(.string().example("default"), criticalSoundSchema),
            "A file of the app, or default.", isSign: false),
        ContentField("category", .text, in: .notification, .string().example("MESSAGE"), rank: 1),
        ContentField("thread_id", .text, in: .notification, .string().example("order-4711"), "Groups notifications."),
        ContentField("interruption_level", .level, .words(["active", "passive", "time-sensitive", "critical"])),
        ContentField("relevance_score", .score, .number.example(.number(0.5)), "0 to 1; of a Live Activity any number."),
        ContentField("filter_criteria", .text, in: .notification, .string(), "Judged against the current Focus.", rank: 3),
        ContentField("target_content_id", .text, in: .notification, .string(), "The window to bring forward.", rank: 2),
        ContentField(
            "mutable_content", .flag, in: .notification, .boolean,
            "Pass through the notification service extension; needs an alert."),
        ContentField("content_available", .wake, in: .notification, .boolean, "Alone, a background push."),
        ContentField("url_args", .texts, in: .notification, isSign: false),
        ContentField("content_changed", .change, in: [], .boolean, "Push types widgets and controls."),
        ContentField("event", .other, in: .activity, .words(["update", "start", "end"]), "Makes it a Live Activity's."),
        ContentField("content_state", .object, in: .activity, .dictionary(.anything), "Of a Live Activity, in the app's own shape."),
        ContentField(
            "timestamp", .moment, in: .activity, .time,
            """
            When it was sent, for a Live Activity; where it is left out, when it is due (with local_time: first anywhere, but never before \
            the request).
            """,
            isSign: false),
        ContentField("stale_date", .moment, in: .activity, .time),
        ContentField("dismissal_date", .moment, in: .activity, .time, "With the event end.", only: .end),
        ContentField(
            "attributes_type", .typeName, in: .activity, .string(Purpose.maximumNameBytes), "With the event start, as the rest:",
            only: .start),
        ContentField("attributes", .object, in: .activity, .dictionary(.anything), only: .start),
        ContentField("input_push_token", .one, in: .activity, .boolean, only: .start),
        ContentField("input_push_channel", .channel, in: .activity, .channelID, only: .start),
    ]

    /// The keys of `alert`; the last ones are older, and senders still state them.
    static let alert: [ContentField] = [
        ContentField("title", .headline, .string().example("Your order is packed")), ContentField("subtitle", .text, .string()),
        ContentField("body", .headline, .string()), ContentField("launch_image", .text, .string()),
        ContentField("title_loc_key", .text, .string()), ContentField("title_loc_args", .texts, .array(.string())),
        ContentField("subtitle_loc_key", .text, .string()), ContentField("subtitle_loc_args", .texts, .array(.string())),
        ContentField("loc_key", .text, .string()), ContentField("loc_args", .texts, .array(.string())),
        ContentField("action", .other), ContentField("action_loc_key", .other), ContentField("summary_arg", .other),
        ContentField("summary_arg_count", .other),
    ]

    /// Without the fields that the renderer writes in its own way.
    static let rendered = all.filter { $0.schema != nil && $0.kind.form != .own }
        .sorted { $0.kind.form.rawValue < $1.kind.form.rawValue }
    /// The checks for every push type, those for Live Activities alone, and those of `alert`.
    static let checked = inOrderOfFaults(all.filter { $0.pushes != .activity })
    static let checkedInActivity = inOrderOfFaults(all.filter { $0.pushes == .activity })
    static let checkedInAlert = inOrderOfFaults(alert)

    private static func inOrderOfFaults(_ fields: [ContentField]) -> [ContentField] {
        fields.sorted { ($0.kind.rawValue, $0.rank) < ($1.kind.rawValue, $1.rank) }
    }

    static let contentSchema = JSONSchema.request(
        all.compactMap(\.schema) + [.omissible("custom", .dictionary(.anything), "Keys of the app's own, which stand beside aps.")])

    private static let alertSchema: JSONSchema = .named(
        "Alert", .request(alert.compactMap(\.schema)).example(.map(["title": "Your order is packed"])))

    private static let criticalSoundSchema: JSONSchema = .request(
        "CriticalSound",
        [
            .required("name", .string().example("default")), .required("critical", .boolean.example(true)),
            .omissible("volume", .number.example(.number(0.8)), "0 to 1."),
        ])
}
