import Hummingbird
package import Postgres
import PushModel
import StrictJSON
import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry
import TokenServiceSending

/// `POST /v1/apps/{app}/users/{user}/export`: all stored data of one user in one app, as one JSON document.
///
/// Read and written page by page, so memory does not grow with the user; each page is a moment of its own. The events of an installation
/// under another owner are left out. Notifications to an installation that the user has left are included as long as the history has it
/// (`HISTORY_RETENTION_DAYS`).
package struct UserExport: Sendable {
    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    func firstPage(user: String, app: App) async throws -> UserExportStore.Page {
        try await installations(user: user, app: app, after: .first)
    }

    /// - Throws: if the database fails on the way; the document then ends unfinished, so that no JSON parser accepts it.
    @concurrent func write(
        user: String, app: App, first: UserExportStore.Page, to writer: inout any ResponseBodyWriter
    ) async throws {
        let (quietHours, activities) = try await pool.session { session in
            let store = UserExportStore(session, app: app, user: user)
            return (try store.quietHours(), try store.activities())
        }
        var head = JSONWriter()
        Self.head.write((app.slug, user, quietHours, activities), &head)
        try await writer.write(ByteBuffer(bytes: head.bytes.dropLast()))
        try await list("installations", from: first, to: &writer) { cursor in
            try await installations(user: user, app: app, after: cursor)
        }
        try await list("history", from: try await history(user: user, app: app, after: .first), to: &writer) { cursor in
            try await history(user: user, app: app, after: cursor)
        }
        try await notifications(user: user, app: app, to: &writer)
        try await writer.write(ByteBuffer(string: "}"))
    }

    private func installations(user: String, app: App, after cursor: UserExportStore.Cursor) async throws -> UserExportStore.Page {
        try await pool.session { session in try UserExportStore(session, app: app, user: user).installations(after: cursor) }
    }

    private func history(user: String, app: App, after cursor: UserExportStore.Cursor) async throws -> UserExportStore.Page {
        try await pool.session { session in try UserExportStore(session, app: app, user: user).history(after: cursor) }
    }

    @concurrent private func list(
        _ name: String, from first: UserExportStore.Page, to writer: inout any ResponseBodyWriter,
        _ next: (UserExportStore.Cursor) async throws -> UserExportStore.Page
    ) async throws {
        try await writer.write(ByteBuffer(string: ",\"\(name)\":["))
        var page = first
        var separator: [UInt8] = []
        while true {
            try await write(page.items, separator: &separator, to: &writer)
            guard let cursor = page.next else { break }
            page = try await next(cursor)
        }
        try await writer.write(ByteBuffer(string: "]"))
    }

    /// A notification may have more deliveries than memory should hold: they are pages of their own, inside its object.
    @concurrent private func notifications(user: String, app: App, to writer: inout any ResponseBodyWriter) async throws {
        try await writer.write(ByteBuffer(string: ",\"notifications\":["))
        var cursor = UserExportStore.Cursor.first
        var separator = ""
        while true {
            let from = cursor
            let page = try await pool.session { session in
                try UserExportStore(session, app: app, user: user).notifications(after: from)
            }
            for (id, item) in zip(page.ids, page.items) {
                try await writer.write(ByteBuffer(string: separator))
                try await writer.write(ByteBuffer(bytes: item.dropLast()))
                let first = try await deliveries(of: id, isToMany: page.isToMany, user: user, app: app, after: .first)
                try await list("deliveries", from: first, to: &writer) { cursor in
                    try await deliveries(of: id, isToMany: page.isToMany, user: user, app: app, after: cursor)
                }
                try await writer.write(ByteBuffer(string: "}"))
                separator = ","
            }
            guard let next = page.next else { break }
            cursor = next
        }
        try await writer.write(ByteBuffer(string: "]"))
    }

    private func deliveries(
        of notification: PushID, isToMany: Bool, user: String, app: App, after cursor: UserExportStore.Cursor
    ) async throws -> UserExportStore.Page {
        try await pool.session { session in
            try UserExportStore(session, app: app, user: user).deliveries(of: notification, isToMany: isToMany, after: cursor)
        }
    }

    @concurrent private func write(
        _ items: [[UInt8]], separator: inout [UInt8], to writer: inout any ResponseBodyWriter
    ) async throws {
        guard !items.isEmpty else { return }
        var bytes: [UInt8] = []
        for item in items {
            bytes += separator
            bytes += item
            separator = [UInt8(ascii: ",")]
        }
        try await writer.write(ByteBuffer(bytes: bytes))
    }
}

extension UserExport {
    static let request = JSONSchema.request("NoFields", [])

    /// The whole document, which no single value represents.
    static let schema = JSONSchema.named(
        "UserExport",
        .answer(
            headFields.flatMap(\.described) + [
                .required("installations", .array(UserExportStore.installation.schema)),
                .required("history", .array(UserExportStore.historyEntry.schema)),
                .required("notifications", .array(UserExportStore.notificationSchema)),
            ]))

    private static let head = ResponseSchema.object(nil, headFields)

    private typealias Head = (app: AppSlug, user: String, quietHours: QuietHours?, activities: [ActivityRecord])

    private static let headFields: [ResponseSchema<Head>.Field] = [
        .required("app", .slug) { $0.app },
        .required("user", .text(.user)) { $0.user },
        .required("exported_at", .time) { _ in UnixTime.milliseconds() },
        .optional("quiet_hours", QuietHours.response) { $0.quietHours },
        .required("activities", .array(ActivityRecord.response), "Live Activities of the last seven days, at most 1000.") { $0.activities },
    ]
}
