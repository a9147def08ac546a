package import Postgres
package import PushModel
import TokenServiceApps
package import TokenServiceKit
import TokenServiceRegistry

/// The state of a notification, delivery by delivery. Times are UNIX milliseconds.
package struct NotificationStatus: Equatable, Sendable {
    package var receipt: AcceptedNotification
    package var target: NotificationAddress
    /// The record that is kept of each delivery.
    package var receipts: NotificationRequest.Receipts
    /// Deliveries so far.
    package var total: Int
    package var state: String
    package var notBefore: Int64?
    /// The local time as the sender asked for it, without a zone: it is each device's own.
    package var localTime: String?
    package var completedAt: Int64?
    package var cancelledAt: Int64?
    package var cancelReason: String?
    /// Exact at the moment of the request.
    package var counts: [String: Int]
    /// The counts by APNs' answer; the most frequent first.
    package var reasons: [Reason]
    package var pending: Int
    /// What devices reported; nil if the sender did not ask for it.
    package var deviceReceipts: [DeviceReceipt.Event: Int]?
    /// The deliveries, at most ``maximumDeliveries``: the first by their places, of these the pending ones first.
    package var deliveries: [Delivery]

    package static let maximumDeliveries = 1000

    /// How many deliveries ended in one way.
    package struct Reason: Equatable, Sendable {
        package var outcome: String
        /// APNs' status; nil if APNs was not asked or did not answer.
        package var status: Int?
        /// APNs' word, or ours if APNs was not asked or did not answer.
        package var reason: String?
        package var count: Int
    }

    package struct Delivery: Equatable, Sendable {
        package var id: PushID
        package var installation: PushID
        /// Nil if it was erased, or removed since.
        package var token: DeviceToken?
        package var environment: String
        /// Nil while it is pending.
        package var outcome: String?
        package var status: Int?
        package var reason: String?
        package var attempts: Int
        package var lastAttempt: Attempt?
        package var apnsUniqueID: String?
        /// When it was shown, as the device reported.
        package var shownAt: Int64?
        package var openedAt: Int64?
        package var dismissedAt: Int64?
        package var updatedAt: Int64

        package init(
            id: PushID, installation: PushID, token: DeviceToken? = nil, environment: String, outcome: String? = nil, status: Int? = nil,
            reason: String? = nil, attempts: Int, lastAttempt: Attempt? = nil, apnsUniqueID: String? = nil, shownAt: Int64? = nil,
            openedAt: Int64? = nil, dismissedAt: Int64? = nil, updatedAt: Int64
        ) {
            self.id = id
            self.installation = installation
            self.token = token
            self.environment = environment
            self.outcome = outcome
            self.status = status
            self.reason = reason
            self.attempts = attempts
            self.lastAttempt = lastAttempt
            self.apnsUniqueID = apnsUniqueID
            self.shownAt = shownAt
            self.openedAt = openedAt
            self.dismissedAt = dismissedAt
            self.updatedAt = updatedAt
        }
    }

    package struct Attempt: Equatable, Sendable {
        package var outcome: String
        package var status: Int?
        package var reason: String?
        package var at: Int64?
        package var retryAt: Int64?

        /// A request left: APNs answered it, or left it unanswered.
        package var wasTried: Bool { status != nil || outcome == OutcomeClass.unknown.rawValue }
    }
}

extension NotificationStatus {
    static let response = ResponseSchema<NotificationStatus>.object(
        "Notification",
        [
            .required("id", .uuid) { $0.receipt.id },
            .required("app", .slug) { $0.receipt.app },
            .required("state", .text(.notificationState)) { $0.state },
            .required("lane", .word) { $0.receipt.lane },
            .required("push_type", .word) { $0.receipt.pushType },
            .required("to", NotificationAddress.response) { $0.target },
            .required("receipts", .receipts) { $0.receipts },
            .required("accepted_at", .time) { $0.receipt.acceptedAt },
            .optional("not_before", .time) { $0.notBefore },
            .optional("local_time", .text(.localTimeAsked)) { $0.localTime },
            .required("expires_at", .time) { $0.receipt.expiresAt },
            .optional("completed_at", .time) { $0.completedAt },
            .optional("cancelled_at", .time) { $0.cancelledAt },
            .optional("cancel_reason", .text(.cancelReason)) { $0.cancelReason },
            .required("counts", counts, "Exact; the classes add up to the total.") { $0 },
            .required(
                "reasons", .array(Reason.response), "The same by status and reason; the most frequent first."
            ) { $0.reasons },
            .optional(
                "device_receipts", deviceReceipts,
                "Deliveries by what their devices reported, a second or two ago. Only if the request asked for it."
            ) {
                $0.deviceReceipts
            },
            .optional("deliveries_truncated", .boolean, "There are more deliveries than are listed.") {
                $0.deliveries.count < $0.total ? true : nil
            },
            .required("deliveries", .array(Delivery.hints), "At most the first 1000, of these the pending ones first.") { $0.deliveries },
        ])

    private static let deviceReceipts = ResponseSchema<[DeviceReceipt.Event: Int]>.object(
        "DeviceReceiptCounts",
        DeviceReceipt.Event.allCases.map { event in .required(event.rawValue, .count) { $0[event] ?? 0 } })

    private static let counts = ResponseSchema<NotificationStatus>.object(
        nil,
        [.required("total", .count) { $0.total }, .required("pending", .count) { $0.pending }]
            + OutcomeClass.allCases.map { outcome in .required(outcome.rawValue, .count) { $0.counts[outcome.rawValue] ?? 0 } })
}

extension NotificationStatus.Reason {
    fileprivate static let response = ResponseSchema<NotificationStatus.Reason>.object(
        "OutcomeCount",
        [
            .required("class", .text(.words(OutcomeClass.self))) { $0.outcome },
            .optional("status", .integer(.integer.example(410)), "APNs' HTTP status.") { $0.status },
            .optional("reason", .text(.outcomeReason.example("Unregistered"))) { $0.reason },
            .required("count", .count) { $0.count },
        ])
}

extension NotificationStatus.Delivery {
    static let hints = response(.hints)
    static let full = response(.full)

    private static func response(_ shown: TokenDisplay) -> ResponseSchema<NotificationStatus.Delivery> {
        .object(
            "Delivery",
            [
                .required("id", .uuid, "Also the apns-id.") { $0.id },
                .required("installation", .uuid, "Of a broadcast the nil UUID: Apple does not say which devices follow a channel.") {
                    $0.installation
                },
                .optional("token", .deviceToken, "Only where `tokens=full` was asked for, and while it is stored.") {
                    shown == .full ? $0.token : nil
                },
                .required("hint", .text(.tokenHint)) { $0.token?.hint ?? "" },
                .required("environment", .text(.environment)) { $0.environment },
                .required("state", .text(.words(DeliveryList.State.names))) { $0.outcome ?? "pending" },
                .optional("status", .integer(.integer.example(200)), "APNs' HTTP status.") { $0.status },
                .optional("reason", .text(.outcomeReason.example("Unregistered"))) { $0.reason },
                .required("attempts", .count) { $0.attempts },
                .optional("last_attempt", NotificationStatus.Attempt.response) { $0.lastAttempt },
                .optional(
                    "apns_unique_id", .text(.string().example("1ccd6b20-cf6d-4e2b-8e4a-3a05c0f1b9a7")),
                    "APNs' id of the last push; Apple's Push Notifications Console finds it. Only the sandbox sends one."
                ) { $0.apnsUniqueID },
                .optional("shown_at", .time, "As the device reported, like the next two.") { $0.shownAt },
                .optional("opened_at", .time) { $0.openedAt },
                .optional("dismissed_at", .time) { $0.dismissedAt },
                .required("updated_at", .time) { $0.updatedAt },
            ])
    }
}

extension NotificationStatus.Attempt {
    fileprivate static let response = ResponseSchema<NotificationStatus.Attempt>.object(
        "Attempt",
        [
            .required("class", .text(.words(OutcomeClass.self))) { $0.outcome },
            .optional("status", .integer(.integer.example(429))) { $0.status },
            .optional("reason", .text(.outcomeReason.example("TooManyRequests"))) { $0.reason },
            .optional("at", .time) { $0.at },
            .optional("retry_at", .time) { $0.retryAt },
        ])
}

extension ResponseSchema where Value == NotificationRequest.Receipts {
    package static var receipts: ResponseSchema {
        ResponseSchema(
            schema: word.schema.described(
                "What is kept of each delivery: `all` a receipt, `failures` exact counters and receipts of what failed."),
            write: word.write)
    }
}

extension JSONSchema {
    package static let notificationState = JSONSchema.words(NotificationState.self)
    static let localTimeAsked = JSONSchema.string().example("2026-11-22T09:00").described("By the clock where each device is.")
    static let cancelReason = JSONSchema.words(["cancelled", "superseded"])
    package static let outcomeReason = JSONSchema.string()
        .described("APNs' word, or ours in `snake_case` where it was not asked or did not answer.")
}

extension NotificationReading {
    /// Several statements: the transaction must be of isolation `.repeatableRead`.
    /// - Returns: nil where the app has no such notification.
    package func status(of id: PushID) throws -> NotificationStatus? {
        let found = try session.execute("SELECT * FROM notification_records WHERE app_id = \(app.id) AND id = \(id)")
        guard let row = found.first else { return nil }
        let (receipts, total, pending): (NotificationRequest.Receipts, Int, Int) = (
            try row["receipts"], try row["total"], try row["pending"]
        )
        let receipt = AcceptedNotification(
            id: id, app: app.slug, lane: try row["lane"], pushType: try row["push_type"],
            deliveries: try row["is_fanned_out"] ? nil : total,
            acceptedAt: try row.milliseconds("accepted_at"), expiresAt: try row.milliseconds("expires_at"))
        let answers = try session.pipeline([
            outcomes(of: id), firstDeliveries(of: id, isWithMembers: receipts == .all && pending > 0),
        ])
        let reasons = try answers[0].map { row in
            NotificationStatus.Reason(
                outcome: try row["class"], status: try row["status"], reason: try row["reason"], count: try row["count"])
        }
        var counts = ["pending": pending]
        for reason in reasons { counts[reason.outcome, default: 0] += reason.count }
        return NotificationStatus(
            receipt: receipt, target: try NotificationAddress(row), receipts: receipts, total: total, state: try row["state"],
            notBefore: try row.milliseconds("not_before"), localTime: try row["local_text"],
            completedAt: try row.milliseconds("completed_at"), cancelledAt: try row.milliseconds("cancelled_at"),
            cancelReason: try row["cancel_reason"], counts: counts, reasons: reasons, pending: pending,
            deviceReceipts: try row["device_receipts"]
                ? [.shown: row["shown"], .opened: row["opened"], .dismissed: row["dismissed"]] : nil,
            deliveries: try answers[1].map { row in try NotificationStatus.Delivery(row, token: row["token"]) })
    }

    private func outcomes(of notification: PushID) -> PostgresQuery {
        """
        SELECT o.class, o.status, o.reason, o.count FROM notifications n CROSS JOIN LATERAL unnest(n.outcomes) AS o
        WHERE n.app_id = \(app.id) AND n.id = \(notification) ORDER BY o.count DESC, o.class, o.status, o.reason
        """
    }

    /// Reads the first receipts and jobs only: a notification may have millions.
    /// - Parameter isWithMembers: Whether deliveries that are under way without a receipt are read, too.
    private func firstDeliveries(of notification: PushID, isWithMembers: Bool) -> PostgresQuery {
        """
        SELECT d.*, t.token
        FROM (
            (
                SELECT number, "position" FROM receipts WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id)
                    AND id = \(notification))
                ORDER BY number, "position" LIMIT \(NotificationStatus.maximumDeliveries)
            ) UNION (
                SELECT open.number, m."position"
                FROM (
                    SELECT number, j AS job FROM jobs j WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id)
                        AND id = \(notification)) AND \(isWithMembers)
                    ORDER BY number LIMIT \(NotificationStatus.maximumDeliveries)
                ) AS open CROSS JOIN LATERAL members_of(open.job) AS m
                WHERE bit_count((open.job).ended) < octet_length((open.job).members) / 8 AND NOT m.has_ended
                ORDER BY open.number, m."position" LIMIT \(NotificationStatus.maximumDeliveries)
            )
        ) AS place
        CROSS JOIN LATERAL (
            SELECT * FROM deliveries
            WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(notification)) AND number = place.number
                AND "position" = place."position" LIMIT 1
        ) AS d
        LEFT JOIN tokens t ON t.id = d.token_id
        ORDER BY d.class NULLS FIRST, d.number, d."position" LIMIT \(NotificationStatus.maximumDeliveries)
        """
    }
}

extension NotificationStatus.Delivery {
    /// - Parameter row: A row of `deliveries`.
    package init(_ row: PostgresRow, token: DeviceToken? = nil) throws {
        let (outcome, attempts): (String?, Int) = (try row["class"], try row["attempts"])
        let attempt = try NotificationStatus.Attempt(row)
        // A delivery that was put back without an attempt has the number of the coming attempt.
        let isPutBack = outcome == nil && attempt?.wasTried == false
        self.init(
            id: try row["id"], installation: try row["installation"], token: token, environment: try row["environment"], outcome: outcome,
            status: try row["status"], reason: try row["reason"], attempts: max(0, attempts - (isPutBack ? 1 : 0)), lastAttempt: attempt,
            apnsUniqueID: try row["apns_unique_id"], shownAt: try row.milliseconds("shown_at"),
            openedAt: try row.milliseconds("opened_at"), dismissedAt: try row.milliseconds("dismissed_at"),
            updatedAt: try row.milliseconds("updated_at"))
    }
}

extension NotificationStatus.Attempt {
    /// - Parameter row: A row of `deliveries`.
    fileprivate init?(_ row: PostgresRow) throws {
        guard let outcome: String = try row["last_class"] else { return nil }
        self.init(
            outcome: outcome, status: try row["last_status"], reason: try row["last_reason"], at: try row.milliseconds("last_at"),
            retryAt: try row.milliseconds("retry_at"))
    }
}
