import NIOHTTP1

extension ConnectionState.Request {
    /// Marks as ambiguous a head that the HTTP parser lets pass: any by which two servers in a row could disagree on where a request ends,
    /// or whom it is for.
    init(_ head: HTTPRequestHead) {
        let isOld = head.version != .http1_1
        isAmbiguous = Self.isFramingAmbiguous(head.headers, isOld: isOld) || !Self.namesOneHost(head.headers, isOld: isOld)
        // A client of HTTP/1.0 takes the end of the connection for the end of the answer (RFC 9112, section 9.3); if it asks for more
        // requests, the answer refuses them.
        isLast =
            isOld || head.method == .CONNECT || head.headers.contains(name: "Upgrade")
            || head.headers[canonicalForm: "Connection"].contains { $0.lowercased() == "close" }
        // A client of HTTP/1.0 knows no interim answer (RFC 9110, section 10.1.1).
        awaitsContinue = !isOld && head.headers.first(name: "Expect")?.lowercased() == "100-continue"
        bodyBytes =
            head.headers.contains(name: "Transfer-Encoding") ? nil : head.headers.first(name: "Content-Length").flatMap { Int($0) } ?? 0
    }

    /// Codings that this server does not decode (`gzip, chunked`), a length by an empty or a second coding. With HTTP/1.0, any coding: a
    /// proxy of that version may have seen another end (RFC 9112, section 6.1).
    private static func isFramingAmbiguous(_ headers: HTTPHeaders, isOld: Bool) -> Bool {
        let codings = headers["Transfer-Encoding"]
        return !codings.isEmpty && (isOld || codings.count > 1 || codings[0].lowercased() != "chunked")
    }

    /// Exactly one well-formed `Host` (RFC 9112, section 3.2), which HTTP/1.0 may leave out.
    private static func namesOneHost(_ headers: HTTPHeaders, isOld: Bool) -> Bool {
        let hosts = headers["Host"]
        guard let host = hosts.first else { return isOld }
        return hosts.count == 1 && isHost(host.utf8.drop(while: isBlank))
    }

    /// `uri-host [ ":" port ]` (RFC 9110 section 7.2, RFC 3986 section 3.2.2); empty where a target names no authority.
    private static func isHost(_ text: Substring.UTF8View) -> Bool {
        var rest = text
        if rest.first == UInt8(ascii: "[") {
            rest = rest.dropFirst().drop { isOfName($0) || $0 == UInt8(ascii: ":") }
            guard rest.popFirst() == UInt8(ascii: "]") else { return false }
        } else {
            rest = rest.drop(while: isOfName)
        }
        if rest.first == UInt8(ascii: ":") {
            rest = rest.dropFirst().drop { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        }
        return rest.allSatisfy(isBlank)
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }

    /// Unreserved characters, sub-delimiters and the percent sign.
    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: "-._~!$&'()*+,;=%".utf8.contains(byte)
        }
    }
}
