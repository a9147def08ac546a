import HTTPTypes

/// What the HTTP parser below lets pass and we do not: anything by which two servers in a row could disagree on where a request ends.
enum RequestFraming {
    /// Codings that nobody here undoes (`gzip, chunked`), a length by an empty or a second coding, a second `Host`.
    static func isAmbiguous(_ head: HTTPRequest) -> Bool {
        if let coding = head.headerFields[.transferEncoding], coding.lowercased() != "chunked" { return true }
        // The first one became the authority.
        return host.map(head.headerFields.contains) ?? false
    }

    /// Whether nothing can follow on the connection: the client says so, or the parser stops where another protocol could begin.
    static func isLast(_ head: HTTPRequest) -> Bool {
        if head.method == .connect || head.headerFields.contains(.upgrade) { return true }
        guard let connection = head.headerFields[.connection] else { return false }
        return connection.lowercased().split(separator: ",").contains { $0.trimmingBlanks == "close" }
    }

    /// Stands for any coding of a request that is older than codings.
    static let codingOfOldVersion = "of HTTP/1.0"

    private static let host = HTTPField.Name("Host")
}

extension Substring {
    fileprivate var trimmingBlanks: Substring {
        var text = drop { $0 == " " || $0 == "\t" }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return text
    }
}
