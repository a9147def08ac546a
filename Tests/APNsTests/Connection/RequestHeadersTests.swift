import OpenSSL
import PushModel
import Testing

@testable import APNs
@testable import HTTP2

@Suite("The headers of a connection's requests")
struct RequestHeadersTests {
    private let token = Array("bearer token".utf8)

    /// The headers that the connection asks APNs to remember.
    private func remembered(_ headers: RequestHeaders) -> Set<String> {
        var names: Set<String> = []
        for field in headers.block.fields where field.flags == HeaderIndexing.incremental.flags {
            names.insert(name(field, headers))
        }
        return names
    }

    private func name(_ field: HeaderBlock.Field, _ headers: RequestHeaders) -> String {
        field.fixedName?.description ?? String(decoding: headers.block.bytes[field.name], as: UTF8.self)
    }

    private func send(_ batch: APNsBatch, _ headers: inout RequestHeaders) -> Set<String> {
        headers.begin(batch, authorization: token)
        headers.set(batch.requests[0])
        let names = remembered(headers)
        headers.submitted(batch)
        return names
    }

    @Test("The connection has APNs remember the names of changing headers once, and never their values") func changingNames() {
        var headers = RequestHeaders(authority: "localhost")
        let changing: Set = ["apns-id", "apns-expiration", "apns-collapse-id"]
        let plain = APNsBatch.make(1, tag: 1)
        let full = APNsBatch.make(1, tag: 2, collapseID: "c", expiration: 1_900_000_000)
        #expect(send(plain, &headers).intersection(changing) == ["apns-id"])
        #expect(send(full, &headers).intersection(changing) == ["apns-expiration", "apns-collapse-id"])
        #expect(send(full, &headers).intersection(changing).isEmpty)
        #expect(send(plain, &headers).intersection(changing).isEmpty)
        #expect(send(full, &headers).isSuperset(of: ["apns-topic", "apns-push-type", "apns-priority"]))
    }

    @Test("Only batches with equal headers share a header block") func sharedBlock() {
        var headers = RequestHeaders(authority: "localhost")
        func values(_ batch: APNsBatch) -> [String] {
            headers.begin(batch, authorization: token)
            headers.set(batch.requests[0])
            headers.submitted(batch)
            return headers.block.fields.suffix(from: 6).map { String(decoding: headers.block.bytes[$0.value], as: UTF8.self) }
        }
        #expect(values(.make(tag: 1, expiration: 1_900_000_000)) == ["com.example.shop", "alert", "10", "1900000000"])
        #expect(values(.make(tag: 2, expiration: 1_900_000_000)) == ["com.example.shop", "alert", "10", "1900000000"])
        #expect(values(.make(tag: 3, expiration: 1_900_000_001)) == ["com.example.shop", "alert", "10", "1900000001"])
        #expect(values(.make(tag: 4, topic: "com.example.bank")) == ["com.example.bank", "alert", "10"])
        #expect(values(.make(tag: 5, topic: "com.example.bank", collapseID: "c")) == ["com.example.bank", "alert", "10", "c"])
        #expect(values(.make(tag: 6, topic: "com.example.bank", collapseID: "d")) == ["com.example.bank", "alert", "10", "d"])
    }

    @Test("A renewed provider token replaces the old one and keeps the other headers") func renewedToken() {
        var headers = RequestHeaders(authority: "localhost")
        let batch = APNsBatch.make(1, collapseID: "c")
        headers.begin(batch, authorization: token)
        headers.set(batch.requests[0])
        headers.submitted(batch)
        headers.begin(batch, authorization: Array("bearer another".utf8))
        headers.set(batch.requests[0])
        var values: [String: String] = [:]
        for field in headers.block.fields {
            values[name(field, headers)] = String(
                decoding: headers.block.bytes[field.value], as: UTF8.self)
        }
        #expect(values["authorization"] == "bearer another")
        #expect(values["apns-collapse-id"] == "c")
        #expect(values["apns-id"] == batch.requests[0].id.description)
        #expect(remembered(headers).isDisjoint(with: ["apns-id", "apns-collapse-id"]))
    }

    @Test("The header block stays small with device tokens of any length") func tokensOfAnyLengthKeepTheBlockBounded() {
        var headers = RequestHeaders(authority: "localhost")
        var sizes: [Int] = []
        for round in 0..<200 {
            let batch = APNsBatch.make(1, tag: UInt64(round))
            headers.begin(batch, authorization: token)
            let length = round % 2 == 0 ? 100 : 8
            guard let long = DeviceToken(bytes: Array(repeating: 0xcd, count: length)) else { continue }
            headers.set(
                APNsRequest(id: PushID(high: 1, low: 2), token: long, installation: PushID(high: 0, low: 0), ownerEpoch: 0, index: 0))
            headers.submitted(batch)
            sizes.append(headers.block.bytes.count)
        }
        #expect(sizes.count == 200)
        #expect(Set(sizes.suffix(100)).count <= 2, "it does not grow")
    }

    @Test("Each request has the method, the path and the headers of its target, and no others of the batch before") func targets() throws {
        var headers = RequestHeaders(authority: "localhost")
        func sent(_ batch: APNsBatch, _ index: Int = 0) -> [String: String] {
            headers.begin(batch, authorization: token)
            headers.set(batch.requests[index])
            headers.submitted(batch)
            var values: [String: String] = [":scheme": "", ":authority": "", "authorization": ""]
            for field in headers.block.fields where values[name(field, headers)] == nil {
                values[name(field, headers)] = String(decoding: headers.block.bytes[field.value], as: UTF8.self)
            }
            return values.filter { !$0.value.isEmpty }
        }
        let channels = try ["dHN0LXNyY2gtY2hubA==", "AAEC"].map { try #require(ChannelID($0)) }
        let broadcast = APNsBatch.broadcast(to: channels, expiration: 0)
        let request = broadcast.requests[0].id.description
        let push = ["apns-push-type": "liveactivity", "apns-priority": "10", "apns-expiration": "0"]
        let path = "/4/broadcasts/apps/com.example.shop"
        let fixed = push.merging([":method": "POST", ":path": path]) { $1 }
        #expect(sent(broadcast, 0) == fixed.merging(["apns-request-id": request, "apns-channel-id": channels[0].text]) { $1 })
        let second = broadcast.requests[1].id.description
        #expect(sent(broadcast, 1) == fixed.merging(["apns-request-id": second, "apns-channel-id": channels[1].text]) { $1 })

        let bundle = String(repeating: "a", count: 155)
        func manage(_ request: ChannelCommand.Request) -> [String: String] {
            sent(APNsBatch(tag: 1, id: PushID(high: 1, low: 2), request, bundleID: bundle, expiresAt: .max))
        }
        let id = ["apns-request-id": PushID(high: 1, low: 2).description]
        let place = [":path": "/1/apps/\(bundle)/channels"].merging(id) { $1 }
        #expect(manage(.create(.latest)) == place.merging([":method": "POST"]) { $1 })
        #expect(manage(.read(channels[0])) == place.merging([":method": "GET", "apns-channel-id": channels[0].text]) { $1 })
        #expect(manage(.list) == id.merging([":method": "GET", ":path": "/1/apps/\(bundle)/all-channels"]) { $1 })
        #expect(manage(.delete(channels[1])) == place.merging([":method": "DELETE", "apns-channel-id": channels[1].text]) { $1 })
        let device = APNsBatch.make(1, tag: 9)
        #expect(sent(device)["apns-id"] == device.requests[0].id.description)
        #expect(sent(device)[":path"] == "/3/device/\(device.requests[0].token.hex)")
        #expect(sent(device)["apns-request-id"] == nil && sent(device)[":method"] == "POST")
    }

    @Test("Every request of a batch that collapses by id carries its own id as collapse id") func collapseByID() {
        var headers = RequestHeaders(authority: "localhost")
        func values(_ batch: APNsBatch, _ index: Int) -> [String: String] {
            headers.begin(batch, authorization: token)
            headers.set(batch.requests[index])
            defer { headers.submitted(batch) }
            var values: [String: String] = [:]
            for field in headers.block.fields {
                values[name(field, headers)] = String(
                    decoding: headers.block.bytes[field.value], as: UTF8.self)
            }
            return values
        }
        let own = APNsBatch.make(3, tag: 1, collapsesByID: true)
        for index in 0..<3 {
            let sent = values(own, index)
            #expect(sent["apns-collapse-id"] == own.requests[index].id.description)
            #expect(sent["apns-id"] == sent["apns-collapse-id"])
        }
        #expect(values(.make(1, tag: 2), 0)["apns-collapse-id"] == nil)
        #expect(values(.make(1, tag: 3, collapseID: "order-7"), 0)["apns-collapse-id"] == "order-7")
        #expect(values(.make(1, tag: 4, collapseID: "order-7", collapsesByID: true), 0)["apns-collapse-id"] == "order-7")
        #expect(values(own, 1)["apns-collapse-id"] == own.requests[1].id.description)
        #expect(!remembered(headers).contains("apns-collapse-id"))
    }
}
