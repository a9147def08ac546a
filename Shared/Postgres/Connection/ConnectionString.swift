internal import CPostgres

/// Reads a connection string as libpq does.
enum ConnectionString {
    /// The options that the string sets (wraps `PQconninfoParse`; defaults and environment come in when connecting).
    static func parse(_ text: String) throws(PostgresError) -> [String: String] {
        var complaint: UnsafeMutablePointer<CChar>?
        guard let first = PQconninfoParse(text, &complaint) else {
            defer { PQfreemem(complaint) }
            // libpq quotes the string, password included, behind its first quotation mark.
            let words = complaint.map { String(cString: $0) } ?? "out of memory"
            let safe = words.prefix { $0 != "\"" }
            throw PostgresError(
                .configuration, operation: "configure", message: "not a libpq connection string (\(safe.trimmedForDisplay()))")
        }
        defer { PQconninfoFree(first) }
        var options: [String: String] = [:]
        var option = first
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { options[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        return options
    }
}

extension Substring {
    fileprivate func trimmedForDisplay() -> String {
        var text = self
        while let last = text.last, last.isWhitespace || last == ":" { text.removeLast() }
        return String(text)
    }
}
