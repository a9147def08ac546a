import HTTPTypes

/// What the HTTP parser below lets pass and we do not: anything by which two servers in a row could disagree on where a request ends.
enum RequestFraming {
    /// Codings that nobody here undoes (`gzip, chunked`), a length by an empty or a second coding; a `Host` that is missing, malformed or there
    /// twice (RFC 9112 section 3.2).
    static func isAmbiguous(_ head: HTTPRequest) -> Bool {
        if let coding = head.headerFields[.transferEncoding], coding.lowercased() != "chunked" { return true }
        // The first Host became the authority.
        guard let authority = head.authority, isHost(authority[...].trimmingBlanks) else { return true }
        return host.map(head.headerFields.contains) ?? false
    }

    /// `uri-host [ ":" port ]` (RFC 9110 section 7.2, RFC 3986 section 3.2.2); empty where a target names no authority.
    private static func isHost(_ text: Substring) -> Bool {
        var rest = text.utf8
        if rest.first == UInt8(ascii: "[") {
            rest = rest.dropFirst().drop { isOfName($0) || $0 == UInt8(ascii: ":") }
            guard rest.popFirst() == UInt8(ascii: "]") else { return false }
        } else {
            rest = rest.drop(while: isOfName)
        }
        if rest.first == UInt8(ascii: ":") {
            rest = rest.dropFirst().drop { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        }
        return rest.isEmpty
    }

    /// Unreserved characters, sub-delimiters and the percent sign.
    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: "-._~!$&'()*+,;=%".utf8.contains(byte)
        }
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
