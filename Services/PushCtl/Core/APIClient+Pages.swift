import StrictJSON

/// A list that was read page by page.
struct PagedList {
    /// The first page, for what it says beside the rows.
    let first: JSONValue
    let rows: [JSONValue]
    /// Whether the limit cut it short.
    let hasMore: Bool
}

extension APIClient {
    /// Reads until there are enough rows or no more.
    /// - Parameter name: Of the array in each answer.
    func pages(_ path: String, _ query: [(String, String?)], of name: String, limit: Int) async throws -> PagedList {
        var rows: [JSONValue] = []
        var first: JSONValue?
        var cursor: String?
        while true {
            let page = query + [("limit", "\(min(limit - rows.count, 1000))"), ("cursor", cursor)]
            let words = page.compactMap { name, value in value.map { "\(name)=\($0.percentEncoded)" } }
            let answer = try await get("\(path)?\(words.joined(separator: "&"))")
            rows += answer[name]?.arrayValue ?? []
            cursor = answer["next_cursor"]?.stringValue
            if cursor == nil || rows.count >= limit { return PagedList(first: first ?? answer, rows: rows, hasMore: cursor != nil) }
            first = first ?? answer
        }
    }
}

extension String {
    /// For one part of a path or a query: all but the unreserved characters of RFC 3986 section 2.3 as `%XX`.
    var percentEncoded: String {
        var text = ""
        for byte in utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                text.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                text += digits.count == 1 ? "%0\(digits)" : "%\(digits)"
            }
        }
        return text
    }
}
