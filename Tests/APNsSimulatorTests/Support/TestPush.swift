import APNsSimulator
import HTTP2

/// One request of a test: a valid alert unless the test changes it.
struct TestPush {
    static let topic = "com.example.shop"
    static let token = String(repeating: "0a1b2c3d", count: 8)
    static let alert = #"{"aps":{"alert":{"title":"Hello","body":"World"}}}"#

    var method = "POST"
    var path = "/3/device/" + token
    /// The headers in this order; a name may come twice.
    var headers: [(name: String, value: String)] = [("apns-topic", topic), ("apns-push-type", "alert")]
    var body = alert

    func with(_ name: String, _ value: String?) -> TestPush {
        var copy = self
        copy.headers.removeAll { $0.name == name }
        if let value { copy.headers.append((name, value)) }
        return copy
    }

    func adding(_ name: String, _ value: String) -> TestPush {
        var copy = self
        copy.headers.append((name, value))
        return copy
    }

    func to(_ token: String) -> TestPush { path("/3/device/" + token) }

    func path(_ path: String) -> TestPush {
        var copy = self
        copy.path = path
        return copy
    }

    func method(_ method: String) -> TestPush {
        var copy = self
        copy.method = method
        return copy
    }

    func body(_ body: String) -> TestPush {
        var copy = self
        copy.body = body
        return copy
    }

    var block: HeaderBlock {
        var block = HeaderBlock()
        block.append(":method", method)
        block.append(":scheme", "https")
        block.append(":authority", "localhost")
        block.append(":path", path)
        for header in headers { block.append(header.name, header.value) }
        return block
    }
}

extension PushClient {
    @discardableResult
    func submit(_ push: TestPush) throws -> Int32 {
        defer { submitted += 1 }
        return try http2.submit(push.block, body: Array(push.body.utf8))
    }

    /// Sends one push and waits for the end of its stream.
    func send(_ push: TestPush) throws -> Response {
        try run { $0.hasFreeStream }
        let stream = try submit(push)
        try run { $0.closed[stream] != nil }
        return responses[stream] ?? Response()
    }
}
