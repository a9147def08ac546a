import PushAPI
import StrictJSON

/// A list that was read page by page.
struct PagedList {
    /// The first page, for its fields beside the rows.
    let first: JSONValue
    let rows: [JSONValue]
    /// Whether the limit cut it short.
    let hasMore: Bool
}

extension PushAPI {
    /// Reads until there are enough rows or no more.
    /// - Parameter name: The name of the array in each answer.
    func pages(_ path: String, _ query: [(String, String?)], of name: String, limit: Int) async throws -> PagedList {
        var rows: [JSONValue] = []
        var first: JSONValue?
        var cursor: String?
        while true {
            let page = query + [("limit", "\(min(limit - rows.count, 1000))"), ("cursor", cursor)]
            let answer = try await get(path, query: page)
            rows += answer[name]?.arrayValue ?? []
            cursor = answer["next_cursor"]?.stringValue
            if cursor == nil || rows.count >= limit { return PagedList(first: first ?? answer, rows: rows, hasMore: cursor != nil) }
            first = first ?? answer
        }
    }
}
