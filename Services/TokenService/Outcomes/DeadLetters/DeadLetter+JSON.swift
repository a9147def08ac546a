import PushModel
import StrictJSON
import TokenServiceKit

extension DeadLetterFilter {
    /// Letters that one request may name.
    private static let maximumNamed = 500
    /// No notification lives longer.
    static let extensionSeconds: ClosedRange<Int64> = 1...259_200

    static let request = JSONSchema.request("DeadLetterFilter", fields)
    static let replay = JSONSchema.request(
        "DeadLetterReplay",
        fields + [
            .omissible(
                "extend_seconds", .integer(extensionSeconds),
                "Notifications that are past their expiry get so many seconds more; without it they are left alone.")
        ])

    private static let fields: [JSONSchema.Field] = [
        .optional("ids", .array(.uuid, minimum: 1, maximum: maximumNamed)), .omissible("app", .slug),
        .omissible("reason", DeadLetter.reason), .omissible("lane", .words(Lane.self)), .omissible("notification", .uuid),
        .omissible("all", .boolean, "True, and no filter: all there are."),
    ]

    /// A filter that names nothing does not mean everything: the caller has to say so.
    init?(_ body: inout JSONObjectReader) {
        self.init(
            reason: body.optionalString("reason", maximumBytes: 64), lane: body.optionalChoice("lane", of: Lane.self))
        if let text = body.optionalString("app", maximumBytes: 64) {
            app = AppSlug(text)
            if app == nil { body.problem("app", "unknown_app", "must be an app's slug") }
        }
        if let text = body.optionalString("notification", maximumBytes: 36) {
            notification = PushID(text)
            if notification == nil { body.problem("notification", "invalid_id", "a UUID") }
        }
        if body.has("ids"), let texts = body.strings("ids", maximumCount: Self.maximumNamed, maximumBytes: 36) {
            let ids = texts.map { PushID($0) }
            for (index, id) in ids.enumerated() where id == nil { body.problem("ids", step: "/\(index)", "invalid_id", "a UUID") }
            if ids.isEmpty { body.problem("ids", "too_short", "at least one") }
            self.ids = Set(ids.compactMap(\.self))
        }
        let isAll = body.optionalBool("all") ?? false
        body.finish()
        if isEmpty, !isAll { body.problem("all", "missing", "name what is meant, or say that all are") }
        if !isEmpty, isAll { body.problem("all", "conflict", "all, or what else is named: not both") }
    }
}

extension DeadLetter {
    static let reason = JSONSchema.string(64).example("attempts_used_up")

    static let response = ResponseSchema<DeadLetter>.object("DeadLetter", fields)
    static let inFull = ResponseSchema<DeadLetter>.object(
        "DeadLetterInFull",
        fields + [
            .optional("job", .raw(.anything), "The job, for people; its form may change.") {
                $0.job.map { Array($0.jsonDescription().utf8) }
            }
        ])

    private static let fields: [ResponseSchema<DeadLetter>.Field] = [
        .nullable("id", .uuid, "Null where its sender gave none.") { $0.id },
        .required("reason", .text(reason)) { $0.reason },
        .optional("detail", .text()) { $0.detail },
        .optional("source", .text(), "The queue that it came from.") { $0.source },
        .optional("at", .time, "When it was given up.") { $0.at },
        .required("bytes", .count) { $0.bytes },
        .optional("app", .slug) { $0.job?.app },
        .optional("lane", .word) { $0.job?.lane },
        .optional("notification", .uuid) { $0.job?.notification },
        .optional("push_type", .word) { $0.job?.pushType },
        .optional("attempts", .count) { $0.job?.attempt },
        .optional("deliveries", .count) { $0.job?.deliveries.count },
        .optional("expires_at", .time) { $0.job?.expiresAt },
    ]
}

extension DeadLetterService {
    static let list = ResponseSchema<List>.object(
        "DeadLetters",
        [
            .required("matched", .count, "That the filters meet.") { $0.matched },
            .required("seen", .count, "That were looked at.") { $0.seen },
            .required("complete", .boolean, "False: there are more than one call looks at.") { $0.isComplete },
            .required("counts", .array(count)) { list in
                list.counts.sorted { $0.key < $1.key }.map { ($0.key, $0.value, list.deliveries[$0.key] ?? 0) }
            },
            .required("letters", .array(DeadLetter.response), "The oldest first.") { $0.letters },
        ])

    private static let count = ResponseSchema<(of: List.Count, letters: Int, deliveries: Int)>.object(
        "DeadLetterCount",
        [
            .required("reason", .text(DeadLetter.reason)) { $0.of.reason },
            .optional("app", .slug) { $0.of.app },
            .required("letters", .count) { $0.letters },
            .required("deliveries", .count) { $0.deliveries },
        ])

    static let replayed = ResponseSchema<Replayed>.object(
        "DeadLetterReplayResult",
        [
            .required("letters", .count, "Gone from the dead letters.") { $0.letters },
            .required("kept", .count, "Still there.") { $0.kept },
            .required("unreadable", .count, "Of those, no jobs.") { $0.unreadable },
            .required("deliveries", dispositions) { $0.deliveries },
            .required("remaining", .count, "Others that the filters meet: call again.") { $0.remaining },
        ])

    private static let dispositions = ResponseSchema<[DeadLetterReplay.Disposition: Int]>.object(
        "DeadLetterDispositions",
        DeadLetterReplay.Disposition.allCases.map { disposition in
            .required(disposition.rawValue, .count, disposition.meaning) { $0[disposition] ?? 0 }
        })

    static let dropped = ResponseSchema<Dropped>.object(
        "DeadLetterDropResult",
        [
            .required("letters", .count) { $0.letters },
            .required("deliveries", .count) { $0.deliveries },
            .required("remaining", .count, "Call again.") { $0.remaining },
        ])
}

extension DeadLetterReplay.Disposition {
    /// For the document.
    fileprivate var meaning: String? {
        switch self {
        case .sent: "Published anew."
        case .fenced: "Another user is signed in, or no user."
        case .tokenGone: "The installation has no live token."
        case .cancelled: nil
        case .settled: "Has an outcome that is no failure, or the present token has had it."
        case .expired: "Past its expiry; kept."
        case .undecided: "Its outcome is still on its way; kept."
        case .forgotten: "The notification is removed; kept."
        }
    }
}
