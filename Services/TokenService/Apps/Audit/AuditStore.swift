package import Postgres
package import PushModel

/// The table `audit`, within one transaction.
/// It works for every app: the trail is the operator's.
package struct AuditStore {
    /// Entries that one statement reads.
    private static let batch = 1000
    /// Statements of one page: a filter that few entries pass gives short pages, not one request that reads the whole trail.
    private static let batchesPerPage = 5

    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// Adds an entry in the transaction of the change, so that neither is there without the other.
    /// - Parameter count: How many things the action was about, where the object does not say it.
    package func record(
        _ action: AuditAction, by actor: AuditActor, app: AppSlug? = nil, object: String? = nil, count: Int? = nil
    ) throws {
        try session.execute(
            """
            INSERT INTO audit (action, key_id, app, object, count)
            VALUES (\(action), \(actor.keyID), \(app), \(object), \(count.map { Int64($0) }))
            """)
    }

    package struct Page: Sendable {
        /// May be fewer than the limit, even none, while there is a next page.
        package var entries: [AuditEntry]
        /// The next page begins behind this one; nil on the last page.
        package var next: Int64?
    }

    /// The newest first.
    package func page(of filter: AuditFilter, before: Int64?, limit: Int) throws -> Page {
        var page = Page(entries: [], next: before)
        for _ in 1...Self.batchesPerPage {
            let entries = try session.execute(Self.entries(filter, before: page.next ?? .max)).map { row in try AuditEntry(row) }
            for entry in entries {
                page.next = entry.id
                if filter.matches(entry) { page.entries.append(entry) }
                if page.entries.count == limit { return page }
            }
            guard entries.count == Self.batch else {
                page.next = nil
                return page
            }
        }
        return page
    }

    /// Reads entries by the index of one filter; ``AuditFilter/matches(_:)`` applies the others.
    private static func entries(_ filter: AuditFilter, before: Int64) -> PostgresQuery {
        let since = filter.since ?? 0
        if let key = filter.key {
            return """
                SELECT * FROM audit_entries WHERE key_id = \(key) AND id < \(before) AND at >= \(milliseconds: since)
                ORDER BY id DESC LIMIT 1000
                """
        }
        if let action = filter.action {
            return """
                SELECT * FROM audit_entries WHERE action = \(action) AND id < \(before) AND at >= \(milliseconds: since)
                ORDER BY id DESC LIMIT 1000
                """
        }
        if let app = filter.app {
            return """
                SELECT * FROM audit_entries WHERE app = \(app) AND id < \(before) AND at >= \(milliseconds: since)
                ORDER BY id DESC LIMIT 1000
                """
        }
        return """
            SELECT * FROM audit_entries WHERE id < \(before) AND at >= \(milliseconds: since) ORDER BY id DESC LIMIT 1000
            """
    }
}

extension AuditAction: PostgresEncodable, PostgresDecodable {}

extension AuditEntry {
    /// - Parameter row: A row of the view `audit_entries`.
    fileprivate init(_ row: PostgresRow) throws {
        self.init(
            id: try row["id"], at: try row.milliseconds("at"), action: try row["action"], key: try row["key_id"],
            keyName: try row["key_name"], app: try row["app"], object: try row["object"], count: try row["count"])
    }
}
