/// One request as it goes over the wire.
package struct HTTPRequest: Sendable {
    package let bytes: [UInt8]

    package init(_ method: String, _ path: String, key: String, body: String? = nil) {
        var text = "\(method) \(path) HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer \(key)\r\n"
        if let body { text += "content-type: application/json\r\ncontent-length: \(body.utf8.count)\r\n" }
        bytes = Array((text + "\r\n" + (body ?? "")).utf8)
    }

    /// The head alone, for a body that is written apart.
    package init(_ method: String, _ path: String, key: String, contentType: String, length: Int) {
        bytes = Array(
            """
            \(method) \(path) HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer \(key)\r\ncontent-type: \
            \(contentType)\r\ncontent-length: \(length)\r\n\r\n
            """
            .utf8)
    }
}
