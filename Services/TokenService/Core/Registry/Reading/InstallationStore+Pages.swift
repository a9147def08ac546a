import Postgres
import PushModel

/// Lists of installations, keyset by id: what is inserted or removed meanwhile neither repeats a row nor hides one that was there all along.
extension InstallationStore {
    /// How many installations a page with a filter looks at, at most. A filter that few pass gives short pages with a next position
    /// rather than one request that reads a million rows.
    package static let walkedPerPage = 5000

    /// One page. Several statements, so the transaction must be of isolation `.repeatableRead`, unless the list is a user's without filter.
    package func page(of list: InstallationList, from position: InstallationList.Position?, limit: Int) throws -> InstallationList.Page {
        let after = position?.after ?? .lowest
        if let user = list.user {
            guard list.filter.isEmpty else {
                return try walk(Self.walkOwned, Self.ownedHorizon, [.text(user)], list.filter, after: after, limit: limit)
            }
            let records = try page(ownedBy: user, after: after, limit: limit)
            let next = records.count == limit ? records.last : nil
            return .init(records: records, next: next.map { .init(after: $0.id, isWalk: false) })
        }
        if let tag = list.filter.tag, position?.isWalk != true, let page = try taggedPage(tag, list.filter, after: after, limit: limit) {
            return page
        }
        return try walk(Self.walk, Self.horizon, [], list.filter, after: after, limit: limit)
    }

    /// Looks at the next installations in order of id, and says how far it came when they did not fill the page.
    private func walk(
        _ statement: PostgresStatement, _ horizon: PostgresStatement, _ owner: [PostgresValue], _ filter: InstallationFilter,
        after: PushID, limit: Int
    ) throws -> InstallationList.Page {
        let place = [.int64(app.id), .id(after)] + owner
        let found = try session.execute(statement, filter.parameters + [.int64(Int64(limit))] + place).map { row in try row.id(0) }
        let end = found.count == limit ? found.last : try session.execute(horizon, place).first?.id(0)
        return .init(records: try records(found), next: end.map { .init(after: $0, isWalk: true) })
    }

    /// By the index on tags, as long as few installations have the tag; nil where more do than a page may look at.
    private func taggedPage(
        _ tag: String, _ filter: InstallationFilter, after: PushID, limit: Int
    ) throws -> InstallationList.Page? {
        let rows = try session.execute(
            Self.tagged, filter.parameters + [.int64(Int64(limit)), .int64(app.id), .id(after), .text(tag)])
        let found = try rows.compactMap { row in try row.optionalID(0) }
        guard found.count == rows.count else { return nil }
        let next = found.count == limit ? found.max() : nil
        return .init(records: try records(found), next: next.map { .init(after: $0, isWalk: false) })
    }
}

extension InstallationFilter {
    /// `$1` to `$4` of the statements.
    fileprivate var parameters: [PostgresValue] {
        [
            .optionalText(state?.rawValue), .optionalText(tag), seenAfter.map { .timestamp(milliseconds: $0) } ?? .typedNull(.timestamp),
            seenBefore.map { .timestamp(milliseconds: $0) } ?? .typedNull(.timestamp),
        ]
    }
}
