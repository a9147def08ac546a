import PushModel
import StrictJSON
import TokenServiceApps
package import TokenServiceKit

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

    /// In a user's export, the last fields of it as well.
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
