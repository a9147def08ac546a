import Testing

@testable import HTTP2

@Suite("HTTP/2: prepared headers", .timeLimit(.minutes(5)))
struct HeaderTests {
    @Test("A replaced value is sent, and the others stay") func replacedValue() throws {
        let wire = try Wire()
        var headers = HeaderBlock()
        headers.append(":method", "POST")
        headers.append(":scheme", "https")
        let path = headers.append(":path", "/3/device/00")
        headers.append(":authority", "localhost")
        headers.append("apns-topic", "com.example.shop")
        for value in ["/3/device/ff", "/3", "/3/device/" + String(repeating: "ab", count: 80), "/3/device/11", ""]
            + (0..<40).map({
                "/" + String(repeating: "x", count: $0 * 7 % 97)
            })
        {
            headers.setValue(value, at: path)
            _ = try wire.client.submit(headers, body: [1])
            try wire.exchange()
            guard !value.isEmpty else { continue }
            let received = try #require(wire.requests.last?.headers)
            #expect(received[":path"] == value)
            #expect(received["apns-topic"] == "com.example.shop" && received[":authority"] == "localhost")
        }
    }

    @Test("Headers after a mark can be cut off again") func cutAtMark() throws {
        let wire = try Wire()
        var headers = request("/3/device/00")
        let mark = headers.mark
        for id in ["one", "second", "3"] {
            headers.truncate(to: mark)
            headers.setValue("/3/device/" + String(repeating: id, count: 9), at: 3)
            headers.append("apns-id", id, indexing: .withoutIndexing)
            _ = try wire.client.submit(headers, body: [1])
            try wire.exchange()
            let received = try #require(wire.requests.last?.headers)
            #expect(received["apns-id"] == id)
            #expect(received[":path"] == "/3/device/" + String(repeating: id, count: 9))
            #expect(received.count == 6)
        }
    }

    @Test("Prepared headers do not grow with use") func boundedSize() throws {
        var headers = request("/3/device/00")
        let mark = headers.mark
        func round(_ number: Int) {
            headers.truncate(to: mark)
            headers.setValue("/3/device/" + String(repeating: "a", count: number % 300), at: 3)
            headers.append("apns-id", String(repeating: "i", count: number % 50))
        }
        for number in 0..<600 { round(number) }
        let size = headers.bytes.count
        for number in 0..<6000 { round(number) }
        #expect(headers.bytes.count == size || headers.bytes.count <= size + 50)
        #expect(headers.bytes.count < 2_000)
    }

    @Test("An indexed header costs almost nothing the second time") func indexedHeader() throws {
        let wire = try Wire()
        func bytes(_ headers: HeaderBlock) throws -> Int {
            _ = try wire.client.submit(headers, body: [1])
            let output = try wire.client.output()
            try wire.server.receive(output)
            return Frame.all(in: output).first { $0.kind == .headers }?.payload.count ?? 0
        }
        let value = String(repeating: "v", count: 60)
        var indexed = request("/")
        indexed.append("apns-topic2", value)
        var literal = request("/")
        literal.append("apns-id", value, indexing: .withoutIndexing)
        _ = (try bytes(indexed), try bytes(literal))
        #expect(try bytes(indexed) + 30 < bytes(literal))
    }

    @Test("A header list finds, compares and iterates") func headerList() throws {
        let list: HeaderList = HeaderList([":path": "/x", "cookie": "a", "cookie": "b", "empty": ""])
        #expect(list[":path"] == "/x")
        #expect(list["cookie"] == "a")
        #expect(list["empty"] == "" && list.has("empty", equalTo: []))
        #expect(list["cooki"] == nil && list["Cookie"] == nil)
        #expect(list.has(":path", equalTo: Array("/x".utf8)))
        #expect(!list.has(":path", equalTo: Array("/y".utf8)) && !list.has(":path", equalTo: []) && !list.has("none", equalTo: []))
        #expect(list.value(of: "cookie").map(Array.init) == Array("a".utf8))
        var lengths: [Int] = []
        list.forEach { name, value in lengths += [name.count, value.count] }
        #expect(lengths == [5, 2, 6, 1, 6, 1, 5, 0])
        #expect(list.description == ":path, cookie, cookie, empty", "no values: they may be secrets")
    }

    @Test("A request with hundreds of headers arrives whole") func manyHeaders() throws {
        var settings = HTTP2ServerSettings()
        settings.maxHeaderListSize = 60_000
        let wire = try Wire(settings: settings)
        var headers = request("/")
        for index in 0..<500 { headers.append("x-\(index)", "\(index)") }
        _ = try wire.client.submit(headers, body: [])
        try wire.exchange()
        #expect(wire.requests.last?.headers.count == 505)
        #expect(wire.requests.last?.headers["x-499"] == "499")
    }
}
