package import Broker
package import PushModel
import StrictJSON
import TokenServiceKit

/// One message of the dead-letter queue, as an operator sees it. A message that cannot be read has no job.
package struct DeadLetter: Sendable {
    /// The message's id; nil where its publisher gave none.
    package let id: PushID?
    /// Why it is here: a reason that a dispatcher gave, `delivery_limit` if the broker gave it up, or `unknown`.
    package let reason: String
    /// If it could not be read: the fault in it.
    package let detail: String?
    /// The queue that it came from, if that is known.
    package let source: String?
    package let bytes: Int
    package let job: PushJob?
    /// The broker put it here by itself: no dispatcher has reported an outcome.
    package let isOrphan: Bool
    let deliveryTag: DeliveryTag

    package init(_ message: ReceivedMessage) {
        id = message.messageID
        deliveryTag = message.deliveryTag
        let stated = message.header(DeadLetterPublisher.reasonHeader)
        reason = stated ?? message.header("x-first-death-reason") ?? "unknown"
        isOrphan = stated == nil
        detail = message.header("push-detail")
        source = message.header(DeadLetterPublisher.sourceHeader) ?? message.header("x-first-death-queue")
        bytes = message.body.count
        do { job = try PushJob(decoding: message.body) } catch { job = nil }
    }

    /// When it was given up, UNIX milliseconds: taken from our own message ids.
    package var at: Int64? {
        guard let id, id.high >> 12 & 0xf == 7 else { return nil }
        return Int64(id.high >> 16)
    }
}

/// Which letters a call means. A nil field does not restrict them.
package struct DeadLetterFilter: Equatable, Sendable {
    package var ids: Set<PushID>?
    package var app: AppSlug?
    package var reason: String?
    package var lane: Lane?
    package var notification: PushID?

    package init(
        ids: Set<PushID>? = nil, app: AppSlug? = nil, reason: String? = nil, lane: Lane? = nil, notification: PushID? = nil
    ) {
        self.ids = ids
        self.app = app
        self.reason = reason
        self.lane = lane
        self.notification = notification
    }

    package var isEmpty: Bool { self == DeadLetterFilter() }

    package func matches(_ letter: DeadLetter) -> Bool {
        if let ids, letter.id.map(ids.contains) != true { return false }
        if let app, letter.job?.app != app { return false }
        if let reason, letter.reason != reason { return false }
        if let lane, letter.job?.lane != lane { return false }
        if let notification, letter.job?.notification != notification { return false }
        return true
    }
}

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
    /// What the disposition means, for the document.
    fileprivate var meaning: String? {
        switch self {
        case .sent: "Published anew."
        case .fenced: "Another user is signed in, or no user."
        case .tokenGone: "The installation has no live token."
        case .cancelled: nil
        case .hasOutcome: "Has an outcome that is no failure, or the present token has had it."
        case .expired: "Past its expiry; kept."
        case .undecided: "Its outcome is still on its way; kept."
        case .forgotten: "The notification is removed; kept."
        }
    }
}

/// Sends messages that no process can handle to the dead-letter queue with their reason, where an operator finds them.
package struct DeadLetterPublisher: Sendable {
    /// The header that says why.
    package static let reasonHeader = "push-reason"
    /// The header that names the message's origin.
    package static let sourceHeader = "push-source"

    private static let patience: Duration = .seconds(10)

    private let publisher: Publisher
    private let topology: Topology

    package init(publisher: Publisher, topology: Topology) {
        self.publisher = publisher
        self.topology = topology
    }

    /// - Parameter part: The only one of the message's outcomes that is dead; nil for the whole message.
    /// - Returns: whether the broker has it there; only then may it be acknowledged here.
    package func deadLetter(_ message: ReceivedMessage, part: OutcomeEvent? = nil, reason: String) async -> Bool {
        let letter = OutgoingMessage(
            exchange: topology.deadExchange, routingKey: message.routingKey, messageID: part?.id ?? message.messageID ?? .random(),
            contentType: message.contentType.isEmpty ? "application/octet-stream" : message.contentType,
            headers: [Self.reasonHeader: reason, Self.sourceHeader: message.queue], body: part?.encoded() ?? message.body)
        return await publisher.publish([letter], deadline: Self.patience).allSatisfy(\.isConfirmed)
    }
}
