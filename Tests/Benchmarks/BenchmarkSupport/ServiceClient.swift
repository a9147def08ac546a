import StrictJSON
package import SystemIO

/// One call at a time, for calls outside the measurement and for the import.
package struct ServiceClient: Sendable {
    package let address: SocketAddress
    package let key: String

    package init(address: SocketAddress, key: String) {
        self.address = address
        self.key = key
    }

    package struct Answer {
        package let status: Int
        package let body: [UInt8]

        init(status: Int, body: [UInt8]) {
            self.status = status
            self.body = body
        }
    }

    package func call(_ method: String, _ path: String, body: String? = nil) throws -> Answer {
        try exchange([HTTPRequest(method, path, key: key, body: body).bytes])
    }

    /// Makes the app, or finds it made, and a key that may use it.
    package func makeApp(_ slug: String, scopes: [String] = ["devices", "read"]) throws -> String {
        let app = #"{"slug":"\#(slug)","bundle_id":"com.example.\#(slug)","device_policy":"multi","environments":["production"]}"#
        let made = try call("POST", "/v1/admin/apps", body: app)
        guard made.status == 201 || made.status == 200 else { throw Self.refused("the app", made) }
        let key = try call(
            "POST", "/v1/admin/keys", body: #"{"app":"\#(slug)","name":"benchmark","scopes":\#(scopes)}"#)
        guard key.status == 201, let text = try JSONValue.parse(key.body, maximumBytes: 1 << 20)["key"]?.stringValue else {
            throw Self.refused("the key", key)
        }
        return text
    }

    package static func refused(_ what: String, _ answer: Answer) -> BenchmarkError {
        BenchmarkError("the service refused \(what): \(answer.status) \(String(decoding: answer.body.suffix(600), as: UTF8.self))")
    }

    /// Writes the parts while it reads the answer.
    package func exchange(_ parts: [[UInt8]], patience: Duration = .seconds(60)) throws -> Answer {
        let socket = try TCPSocket.connect(to: address, timeout: .seconds(10))
        defer { socket.close() }
        let poller = try Poller(capacity: 1)
        try poller.add(socket.descriptor, key: 0, interest: [.read, .write])
        var reader = HTTPResponseReader(keepsBody: true)
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var part = 0
        var written = 0
        while true {
            guard let event = try poller.wait(timeout: patience).first else { throw BenchmarkError("no answer in time") }
            if event.isReadable {
                switch try socket.read(into: &buffer) {
                case .bytes(let count):
                    if try reader.receive(buffer[..<count]) { return Answer(status: reader.status, body: reader.takeBody()) }
                case .endOfStream: throw BenchmarkError("the service closed the connection")
                case .wouldBlock: break
                }
            }
            guard event.isWritable, part < parts.count else { continue }
            let bytes = parts[part]
            if case .bytes(let count) = try socket.write(bytes.span.extracting(written..<bytes.count)) { written += count }
            if written == bytes.count { (part, written) = (part + 1, 0) }
            if part == parts.count { try poller.modify(socket.descriptor, key: 0, interest: .read) }
        }
    }
}
