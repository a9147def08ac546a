package import Postgres
package import PushModel
package import TokenServiceApps
package import TokenServiceKit

/// Lists of installations, keyset by id: an insertion or removal meanwhile neither repeats a row nor hides one that was there all along.
extension InstallationStore {
    /// How many installations a page with a filter reads, at most. A filter that rarely matches gives short pages with a next position, not
    /// one request that reads a million rows. The statements have the number as a literal: a planner that does not know the limit prefers
    /// to sort the whole app.
    package static let scannedPerPage = 5000

    /// One page. Several statements, so the transaction must be of isolation `.repeatableRead`, unless the list is a user's without filter.
    package func page(of list: InstallationList, from position: InstallationList.Position?, limit: Int) throws -> InstallationList.Page {
        let after = position?.after ?? .lowest
        if let user = list.user {
            guard list.filter.isEmpty else { return try scan(of: user, list.filter, after: after, limit: limit) }
            let (records, found) = try page(ownedBy: user, after: after, limit: limit)
            let isLast = records.last.map { last in found.count < limit && found.allSatisfy { $0 <= last.id } } ?? true
            return .init(records: records, next: isLast ? nil : records.last.map { .init(after: $0.id, isScan: false) })
        }
        if let tag = list.filter.tag, position?.isScan != true, let page = try taggedPage(tag, list.filter, after: after, limit: limit) {
            return page
        }
        return try scan(list.filter, after: after, limit: limit)
    }

    /// Reads the next installations in order of id, and returns how far it came if they did not fill the page.
    private func scan(_ filter: InstallationFilter, after: PushID, limit: Int) throws -> InstallationList.Page {
        let found: [PushID] = try session.execute(
            """
            SELECT id FROM (SELECT id, i AS row FROM installations i WHERE app_id = \(app.id) AND id > \(after) ORDER BY id
                LIMIT 5000) AS scanned
            WHERE is_listed(
                row, \(filter.state?.rawValue), \(filter.permission?.rawValue), \(filter.tag), \(milliseconds: filter.seenAfter),
                \(milliseconds: filter.seenBefore))
            ORDER BY id LIMIT \(limit)
            """
        ).column("id")
        let end: PushID? =
            try found.count == limit
            ? found.last
            : session.execute(
                "SELECT id FROM installations WHERE app_id = \(app.id) AND id > \(after) ORDER BY id OFFSET 4999 LIMIT 1"
            ).first?["id"]
        return try page(of: found, end: end, isScan: true)
    }

    private func scan(of user: String, _ filter: InstallationFilter, after: PushID, limit: Int) throws -> InstallationList.Page {
        let found: [PushID] = try session.execute(
            """
            SELECT id FROM (
                SELECT id, i AS row FROM installations i WHERE app_id = \(app.id) AND owner = \(user) AND id > \(after)
                ORDER BY id LIMIT 5000
            ) AS scanned
            WHERE is_listed(
                row, \(filter.state?.rawValue), \(filter.permission?.rawValue), \(filter.tag), \(milliseconds: filter.seenAfter),
                \(milliseconds: filter.seenBefore))
            ORDER BY id LIMIT \(limit)
            """
        ).column("id")
        let end: PushID? =
            try found.count == limit
            ? found.last
            : session.execute(
                """
                SELECT id FROM installations WHERE app_id = \(app.id) AND owner = \(user) AND id > \(after) ORDER BY id OFFSET 4999 LIMIT 1
                """
            ).first?["id"]
        return try page(of: found, end: end, isScan: true)
    }

    /// How many installations of every app have one of these tags, about.
    package static func estimateTagged(_ tags: [String]) -> PostgresQuery { "SELECT tagged_estimate(\(tags)) AS estimate" }

    /// Reads a page by the index on tags, which holds the tags of every app, in no order: used if few installations have the tag, by
    /// PostgreSQL's statistics and then in truth; nil if more do than a page may read.
    private func taggedPage(
        _ tag: String, _ filter: InstallationFilter, after: PushID, limit: Int
    ) throws -> InstallationList.Page? {
        guard try session.execute(Self.estimateTagged([tag])).only()["estimate"] <= Self.scannedPerPage else { return nil }
        let tagged = try session.execute(
            "SELECT app_id, id FROM installations WHERE tags @> ARRAY[\(tag)] AND tags <> '{}' LIMIT 5001")
        guard tagged.count <= Self.scannedPerPage else { return nil }
        let ours: [PushID] = try tagged.filter { row in try row["app_id"] == app.id }.map { row in try row["id"] }.filter { $0 > after }
        let found: [PushID] = try session.execute(
            """
            SELECT id FROM installations i WHERE app_id = \(app.id) AND id = ANY (\(ours))
                AND is_listed(
                    i, \(filter.state?.rawValue), \(filter.permission?.rawValue), NULL, \(milliseconds: filter.seenAfter),
                    \(milliseconds: filter.seenBefore))
            ORDER BY id LIMIT \(limit)
            """
        ).column("id")
        return try page(of: found, end: found.count == limit ? found.last : nil, isScan: false)
    }

    /// - Parameter end: The installation behind which the next page begins if all found have room on this one; nil if this is the last one.
    private func page(of found: [PushID], end: PushID?, isScan: Bool) throws -> InstallationList.Page {
        let kept = try withinBytes(found)
        let next = kept.count < found.count ? kept.last : end
        return .init(records: try records(kept), next: next.map { .init(after: $0, isScan: isScan) })
    }
}

/// Which installations a list shows: those that pass every filter that is set.
package struct InstallationFilter: Hashable, Sendable {
    package enum State: String, CaseIterable, Sendable {
        case signedIn = "signed_in"
        case signedOut = "signed_out"
        /// APNs asked, and the time has not passed yet.
        case throttled
        case stale
        /// It has no active token of any purpose.
        case unreachable
    }

    package var state: State?
    package var permission: ReportedPermission?
    /// The tag as a tag expression names it: `beta` is a tag of the backend, `app:beta` one of the app.
    package var tag: String?
    /// Last registered at that moment or later; UNIX milliseconds.
    package var seenAfter: Int64?
    /// Last registered before that moment, so that windows with a common border share no installation; UNIX milliseconds.
    package var seenBefore: Int64?

    package init(
        state: State? = nil, permission: ReportedPermission? = nil, tag: String? = nil, seenAfter: Int64? = nil, seenBefore: Int64? = nil
    ) {
        self.state = state
        self.permission = permission
        self.tag = tag
        self.seenAfter = seenAfter
        self.seenBefore = seenBefore
    }

    package var isEmpty: Bool { self == InstallationFilter() }
}

/// A list that is read page by page: of an app's installations, or of one user's.
package struct InstallationList: Hashable, Sendable {
    /// Nil for the whole app.
    package var user: String?
    package var filter: InstallationFilter

    package init(user: String? = nil, filter: InstallationFilter = InstallationFilter()) {
        self.user = user
        self.filter = filter
    }

    /// The beginning of a page: behind an installation.
    package struct Position: Hashable, Sendable {
        package var after: PushID
        /// The tag is too common for its index: the list is scanned in order of id.
        package var isScan: Bool

        package init(after: PushID, isScan: Bool) {
            self.after = after
            self.isScan = isScan
        }
    }

    package struct Page: Sendable {
        /// The installations in ascending order of id. They may be fewer than the limit, even none, while there is a next page.
        package var records: [InstallationRecord]
        /// Nil on the last page.
        package var next: Position?
    }
}

extension InstallationList {
    package func cursor(_ position: Position, app: App) -> String {
        PageCursor.encode(position.after.bytes + [position.isScan ? 1 : 0], list: identity(app))
    }

    package func position(_ cursor: String, app: App) throws(PageCursor.Fault) -> Position {
        let place = try PageCursor.decode(cursor, list: identity(app))
        guard place.count == 17, place[16] <= 1, let id = PushID(bytes: place.prefix(16)) else { throw .unreadable }
        return Position(after: id, isScan: place[16] == 1)
    }

    private func identity(_ app: App) -> [String?] {
        [
            "installations", "\(app.id)", user, filter.state?.rawValue, filter.permission?.rawValue, filter.tag,
            filter.seenAfter.map { "\($0)" }, filter.seenBefore.map { "\($0)" },
        ]
    }
}
