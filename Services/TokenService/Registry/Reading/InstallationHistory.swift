package import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
package import TokenServiceKit

/// Reads the table `installation_history`, and the state that explains it.
package struct InstallationHistory {
    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    package struct Page: Sendable {
        package var entries: [HistoryEntry]
        /// The number of the last entry, where more may follow.
        package var next: Int64?
        package var reachability: Reachability
    }

    /// Reads a page in one round trip.
    /// - Parameter position: The last entry that was shown.
    /// - Returns: nil where neither the installation nor any history of it exists.
    package func page(of list: HistoryList, from position: Int64?, limit: Int) throws -> Page? {
        let id = list.installation
        let results = try session.pipeline([
            "SELECT *, throttled_until > now() AS is_throttled FROM installations WHERE app_id = \(app.id) AND id = \(id)",
            "SELECT * FROM tokens WHERE app_id = \(app.id) AND installation = \(id)",
            // The rows that explain the state, for every page.
            "SELECT * FROM installation_history WHERE app_id = \(app.id) AND installation = \(id) ORDER BY id DESC LIMIT 100",
            list.order == .newestFirst
                ? """
                SELECT * FROM installation_history WHERE app_id = \(app.id) AND installation = \(id) AND id < \(position ?? .max)
                ORDER BY id DESC LIMIT \(limit)
                """
                : """
                SELECT * FROM installation_history WHERE app_id = \(app.id) AND installation = \(id) AND id > \(position ?? .min)
                ORDER BY id LIMIT \(limit)
                """,
            // Another app may have an installation of the same id: the tokens tell whose receipts they are. An array of them, so that the
            // statement reads no further than to the last one that it needs, nor than 5,000.
            """
            SELECT token_id, class, status, reason, updated_at FROM (
                SELECT notification, token_id, class, status, reason, updated_at FROM receipts
                WHERE installation = \(id) ORDER BY notification DESC LIMIT 5000
            ) AS newest
            WHERE token_id = ANY (ARRAY(SELECT id FROM tokens WHERE app_id = \(app.id) AND installation = \(id)))
            ORDER BY notification DESC LIMIT 100
            """,
        ])
        let state = try results[0].first.map { row in try ReachabilityState(row, tokens: results[1], receipts: results[4]) }
        let recent = try results[2].map { row in try HistoryEntry(row) }
        guard state != nil || !recent.isEmpty else { return nil }
        let rows = results[3]
        return Page(
            entries: try rows.map { row in try HistoryEntry(row) }, next: try rows.count == limit ? rows.last?["id"] : nil,
            reachability: Reachability(state, recent: recent))
    }
}

extension ReachabilityState {
    /// - Parameters:
    ///   - row: Of `installations`, with `is_throttled`.
    ///   - tokens: Of `tokens`.
    ///   - receipts: Of `receipts`, the newest first.
    fileprivate init(_ row: PostgresRow, tokens: PostgresRows, receipts: PostgresRows) throws {
        let owner: String? = try row["owner"]
        let isThrottled: Bool? = try row["is_throttled"]
        self.init(
            isSignedIn: owner != nil, signedOutReason: try row["signed_out_reason"],
            deregisteredAt: try row.milliseconds("deregistered_at"),
            throttledUntil: isThrottled == true ? try row.milliseconds("throttled_until") : nil,
            staleSince: try row.milliseconds("stale_since"), registeredAt: try row.milliseconds("registered_at"),
            permission: try row["permission"], tokens: try tokens.map { row in try Token(row) })
        for token in self.tokens where token.retired == nil && token.purpose == Purpose.alert.rawValue {
            let newest = try receipts.first { row in
                let (number, outcome): (Int64, OutcomeClass?) = (try row["token_id"], try row["class"])
                return number == token.id && outcome != nil
            }
            if let newest, try newest["class"] == OutcomeClass.tokenRejected { rejection = try Rejection(newest, of: token) }
        }
    }
}

extension ReachabilityState.Rejection {
    /// - Parameter row: A row of `receipts`.
    fileprivate init(_ row: PostgresRow, of token: ReachabilityState.Token) throws {
        let status: Int? = try row["status"]
        let words: [String?] = [status.map { "\($0)" }, try row["reason"]]
        self.init(hint: token.hint, at: try row.milliseconds("updated_at"), answer: words.compactMap(\.self).joined(separator: " "))
    }
}

extension ReachabilityState.Token {
    /// - Parameter row: A row of `tokens`.
    package init(_ row: PostgresRow) throws {
        let (token, retiredAt): (DeviceToken, Int64?) = (try row["token"], try row.milliseconds("retired_at"))
        let state: String = try row["state"]
        self.init(
            id: try row["id"], hint: token.hint, environment: try row["environment"], purpose: try row["purpose"],
            registeredAt: try row.milliseconds("registered_at"),
            retired: try retiredAt.map {
                .init(at: $0, reason: try row["retired_reason"], quarantinedAt: try row.milliseconds("quarantined_at"))
            }, isDoubtful: state == "doubtful")
    }
}

extension HistoryEntry.Event: PostgresDecodable {}

extension HistoryEntry {
    /// - Parameter row: A row of `installation_history`.
    package init(_ row: PostgresRow) throws {
        self.init(
            app: try row["app_id"], installation: try row["installation"], event: try row["event"], at: try row.milliseconds("at"))
        ownerEpoch = try row["owner_epoch"]
        owner = try row["owner"]
        if let hint: String = try row["token_hint"] {
            token = Token(id: try row["token_id"], hint: hint, environment: try row["environment"], purpose: try row["purpose"])
        }
        otherInstallation = try row["other_installation"]
        status = try row["status"]
        reason = try row["reason"]
        apnsTimestamp = try row.milliseconds("apns_timestamp")
        delivery = try row["delivery"]
    }
}

extension InstallationHistory {
    /// One page, and of which list it is.
    struct Answer {
        let app: App
        let list: HistoryList
        let page: Page
    }

    static let response = ResponseSchema<Answer>.object(
        "History",
        [
            .required("app", .slug) { $0.app.slug },
            .required("id", .uuid) { $0.list.installation },
            .required("reachable", .boolean, "Whether a notification to its user would be sent to it now.") {
                $0.page.reachability.isReachable
            },
            .required("reachable_purposes", .array(.text(.purpose))) { $0.page.reachability.purposes },
            .required("shows_alerts", .word, "By the permission that the app last reported.") { $0.page.reachability.display },
            .required("explanation", .text(.string().example("Reachable: signed in, with an active alert token."))) {
                $0.page.reachability.explanation
            },
            .optional("rejected_at", .time, "When APNs rejected its alert token, if that is the newest answer that is stored.") {
                $0.page.reachability.rejectedAt
            },
            .required("entries", .array(HistoryEntry.response)) { $0.page.entries },
            .nextCursor { answer in answer.page.next.map { answer.list.cursor(after: $0, app: answer.app) } },
        ])
}

extension HistoryEntry {
    static let response = ResponseSchema<HistoryEntry>.object(
        "HistoryEntry",
        [
            .required("at", .time) { $0.at },
            .required("event", .word) { $0.event },
            .optional("user", .text(.user), "Who was, or became, signed in.") { $0.owner },
            .optional("owner_epoch", .count) { $0.ownerEpoch },
            .optional("token", Token.response) { $0.token },
        ] + causes)

    /// The fields of what caused an entry; in a user's export they are its last fields as well.
    package static let causes: [ResponseSchema<HistoryEntry>.Field] = [
        .optional("other_installation", .uuid, "Where a token came from or went to.") { $0.otherInstallation },
        .optional("status", .integer(.integer.example(410)), "APNs' HTTP status.") { $0.status },
        .optional("reason", .text(.string().example("Unregistered"))) { $0.reason },
        .optional("apns_timestamp", .time, "Since when APNs has known that the token is over.") { $0.apnsTimestamp },
        .optional("delivery", .uuid) { $0.delivery },
    ]
}

extension HistoryEntry.Token {
    static let response = ResponseSchema<HistoryEntry.Token>.object(
        "TokenName",
        [
            .required("hint", .text(.tokenHint)) { $0.hint },
            .required("environment", .text(.environment)) { $0.environment },
            .required("purpose", .text(.purpose)) { $0.purpose },
        ])
}
