import Postgres
import PushModel
import StrictJSON
import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry

/// Rows as JSON objects. Tokens in full: they are the person's own.
extension UserExportStore {
    static func json<Value>(_ schema: ResponseSchema<Value>, _ value: Value) -> [UInt8] {
        var writer = JSONWriter()
        schema.write(value, &writer)
        return writer.bytes
    }

    static let installation = ResponseSchema<(record: InstallationRecord, tokens: [TokenState])>.object(
        "ExportedInstallation",
        [
            .required("id", .uuid) { $0.record.id },
            .required("owner_epoch", .count) { $0.record.ownerEpoch },
            .required("tokens", .array(token)) { $0.tokens },
            .required("created_at", .time) { $0.record.createdAt },
            .required("registered_at", .time) { $0.record.registeredAt },
            .optional("throttled_until", .time) { $0.record.throttledUntil },
            .all(InstallationProfile.texts) { $0.record.profile },
            .required("tags", .array(.text(.tag))) { $0.record.tags },
            .required("app_tags", .array(.text(.tag))) { $0.record.profile.appTags },
        ])

    private static let token = ResponseSchema<TokenState>.object(
        nil,
        [
            .required("token", .deviceToken) { $0.token },
            .all(InstallationRecord.Token.fields) { InstallationRecord.Token($0) },
            .optional("proven_at", .time, "Since when APNs is known to take it.") { $0.provenAt },
            .optional("quarantined_at", .time) { $0.quarantinedAt },
            .optional("ended_by_apns_times", .count, "How often APNs has said that it is over.") {
                $0.endsByAPNs.times > 0 ? $0.endsByAPNs.times : nil
            },
            .optional(
                "silent_since", .time,
                "When its device last reported an activity of the type, or the last start was sent that counts as silent."
            ) { $0.starts.since },
            .optional("silent_starts", .count, "Starts without a report since.") { $0.starts.silent > 0 ? $0.starts.silent : nil },
        ])

    static let historyEntry = ResponseSchema<HistoryEntry>.object(
        "ExportedHistoryEntry",
        [
            .required("installation", .uuid) { $0.installation },
            .required("at", .time) { $0.at },
            .required("event", .word) { $0.event },
            .optional("owner_epoch", .count) { $0.ownerEpoch },
            .optional("user", .text(.user)) { $0.owner },
            .optional("token_hint", .text(.tokenHint)) { $0.token?.hint },
            .optional("environment", .text(.environment)) { $0.token?.environment },
            .optional("purpose", .text(.purpose)) { $0.token?.purpose },
        ] + HistoryEntry.causes)
}
