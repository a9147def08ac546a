import HTTP2
import StrictJSON
import Testing

@testable import APNsSimulator

@Suite("Channels and broadcasts follow Apple's pages", .timeLimit(.minutes(5)))
struct BroadcastTests {
    private static let app = TestPush.topic

    @Test("A channel is made, read, listed and deleted, in its own environment only")
    func management() async throws {
        try await withSimulator { test in
            let client = try ChannelRequests.manage(test)
            let channel = try ChannelRequests.create(test, client, policy: 0)
            let path = "/1/apps/\(Self.app)/channels"
            let read = try client.send(ChannelRequests.request(test, "GET", path, channel: channel))
            #expect(read.body == #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
            let id = "03ff9497-8a6b-4f2c-9c86-0a1b2c3d4e5f"
            let listed = try client.send(
                ChannelRequests.request(test, "GET", "/1/apps/\(Self.app)/all-channels").with("apns-request-id", id))
            #expect(try JSONValue.parse(Array(listed.body.utf8))["channels"]?[0]?.stringValue == channel)
            #expect(listed.requestID == id)
            #expect(read.requestID?.count == 36 && read.requestID == read.requestID?.uppercased())
            let elsewhere = try ChannelRequests.manage(test, .sandbox).send(ChannelRequests.request(test, "GET", path, channel: channel))
            #expect(elsewhere.body == #"{"reason":"ChannelNotRegistered"}"#)
            #expect(try client.send(ChannelRequests.request(test, "DELETE", path, channel: channel)).status == 204)
            let gone = try client.send(ChannelRequests.request(test, "DELETE", path, channel: channel))
            #expect(gone.body == #"{"reason":"ChannelNotRegistered"}"#)
            #expect(try client.send(test.push()).body == #"{"reason":"BadPath"}"#)
            #expect(client.limits.first == 1)
        }
    }

    @Test("Requests that a silent connection swallows do nothing, and stand in the journal as not answered")
    func silent() async throws {
        try await withSimulator { test in
            let client = try ChannelRequests.manage(test)
            let channel = try ChannelRequests.create(test, client)
            test.simulator.setSilent(true)
            // Commands and requests take different paths. A stream limit that the test sends after the command proves that the command has
            // arrived.
            test.simulator.setStreams(50)
            try client.run { $0.limits.last == 50 }
            let id = "03ff9497-8a6b-4f2c-9c86-0a1b2c3d4e5f"
            let path = "/1/apps/\(Self.app)/channels"
            try client.submit(ChannelRequests.request(test, "DELETE", path, channel: channel).with("apns-request-id", id))
            try client.submit(ChannelRequests.request(test, "PATCH", "/1"))
            try client.roundTrip(1)
            let entries = test.simulator.journal()
            #expect(entries.map(\.action) == [.answer, .silence, .silence])
            #expect(entries.map(\.topic) == [Self.app, Self.app, ""])
            #expect(entries[1].apnsID == id)
            #expect(test.simulator.counters.unanswered == [.silence: 2])
            #expect(test.simulator.counters.requests == 3)
            let read = try ChannelRequests.manage(test).send(ChannelRequests.request(test, "GET", path, channel: channel))
            #expect(read.status == 200)
        }
    }

    @Test("A bundle id beyond the maximum length is a bad path, and the simulator does not keep it", arguments: [255, 256, 7000])
    func longBundleID(_ bytes: Int) async throws {
        try await withSimulator { test in
            let bundleID = String(repeating: "a", count: bytes)
            let listed = try ChannelRequests.manage(test).send(ChannelRequests.request(test, "GET", "/1/apps/\(bundleID)/all-channels"))
            let sent = try test.client().send(
                ChannelRequests.request(test, "POST", "/4/broadcasts/apps/\(bundleID)", channel: "AAAA", "{}"))
            #expect([listed.status, sent.status] == (bytes == 255 ? [200, 400] : [404, 404]))
            #expect(test.simulator.journal().map(\.topic.utf8.count) == (bytes == 255 ? [255, 255] : [0, 0]))
        }
    }

    @Test("The number of channels of all apps is limited, and one that is deleted or lost with its capability makes room for another")
    func channelsOfAll() throws {
        var apps = BroadcastApps()
        func key(_ name: String) -> BroadcastApps.Key { BroadcastApps.Key(environment: .sandbox, bundleID: name) }
        func create(_ name: String) -> String? { apps.create(isStoring: true, limit: 10, limitOfAll: 3, key(name)) }
        let first = try #require(create("a"))
        #expect(["b", "c", "d"].map { create($0) != nil } == [true, true, false])
        let deleted = (apps.delete(first, key("a")), apps.delete(first, key("a")))
        #expect(deleted == (true, false))
        #expect(Set(apps.keys) == [key("b"), key("c")])
        #expect(create("d") != nil)
        for isEnabled in [false, false, true] { apps.setEnabled(isEnabled, key("d")) }
        #expect(Set(apps.keys) == [key("b"), key("c")])
        #expect(["a", "d"].map { create($0) != nil } == [true, false])
    }

    @Test(
        "A wrong channel request gets its reason",
        arguments: [
            ("POST", "/1/apps/a/channels", "", 400, "PayloadEmpty"),
            ("POST", "/1/apps/a/channels", "{", 400, "BadRequestPayload"),
            ("POST", "/1/apps/a/channels", "[]", 400, "BadRequestPayload"),
            ("POST", "/1/apps/a/channels", #"{"message-storage-policy":1,"push-type":"LiveActivity","name":"x"}"#, 400, "BadRequestParams"),
            ("POST", "/1/apps/a/channels", #"{"message-storage-policy":1}"#, 400, "MissingPushType"),
            ("POST", "/1/apps/a/channels", #"{"message-storage-policy":1,"push-type":"alert"}"#, 400, "InvalidPushType"),
            ("POST", "/1/apps/a/channels", #"{"message-storage-policy":2,"push-type":"LiveActivity"}"#, 400, "MissingChannelQueueSize"),
            ("GET", "/1/apps/a/channels", "", 400, "MissingChannelId"),
            ("PUT", "/1/apps/a/channels", "", 405, "MethodNotAllowed"),
            ("POST", "/1/apps/a/all-channels", "", 405, "MethodNotAllowed"),
            ("GET", "/1/apps/a/subscribers", "", 404, "BadPath"),
            ("GET", "/1/apps//channels", "", 404, "BadPath"),
            ("GET", "/2/apps/a/channels", "", 404, "BadPath"),
            ("GET", "/1/apps/a.push-type.liveactivity/all-channels", "", 400, "TopicDisallowed"),
        ])
    func managementErrors(_ method: String, _ path: String, _ body: String, _ status: Int, _ reason: String) async throws {
        try await withSimulator { test in
            let response = try ChannelRequests.manage(test).send(ChannelRequests.request(test, method, path, body))
            #expect(response.status == status)
            #expect(response.body == #"{"reason":"\#(reason)"}"#)
            #expect(response.contentType == "application/json")
        }
    }

    @Test("A wrong broadcast gets its reason")
    func broadcastErrors() async throws {
        try await withSimulator { test in
            let keeping = try ChannelRequests.create(test, ChannelRequests.manage(test), policy: 1)
            let fleeting = try ChannelRequests.create(test, ChannelRequests.manage(test), policy: 0)
            let good = ChannelRequests.broadcast(test, keeping)
            let cases: [(TestPush, Int, String)] = [
                (good.with("apns-channel-id", nil), 400, "MissingChannelId"),
                (good.with("apns-channel-id", "not base64!"), 400, "BadChannelId"),
                (good.with("apns-channel-id", "AAAA"), 400, "ChannelNotRegistered"),
                (good.with("apns-push-type", nil), 400, "MissingPushType"),
                (good.with("apns-push-type", "alert"), 400, "InvalidPushType"),
                (good.with("apns-priority", "7"), 400, "BadPriority"),
                (good.with("apns-expiration", "soon"), 400, "BadExpirationDate"),
                (ChannelRequests.broadcast(test, fleeting).with("apns-expiration", "1900000000"), 400, "BadExpirationDate"),
                (good.with("apns-request-id", "ABC"), 400, "BadMessageId"),
                (good.body(""), 400, "PayloadEmpty"),
                (good.body("x"), 400, "BadRequestPayload"),
                (good.body(#"{"aps":{"event":"start","content-state":{}}}"#), 400, "BadRequestPayload"),
                (good.body(#"{"aps":{"alert":"x"}}"#), 400, "BadRequestPayload"),
                (good.body(String(repeating: " ", count: 5121)), 413, "PayloadTooLarge"),
                (good.method("GET"), 405, "MethodNotAllowed"),
                (good.path("/4/broadcasts/apps/"), 404, "BadPath"),
                (good.path("/4/broadcasts/\(Self.app)"), 404, "BadPath"),
                (good.path("/4/broadcasts/apps/\(Self.app).push-type.liveactivity"), 400, "TopicDisallowed"),
                (good.with("authorization", nil), 403, "MissingProviderToken"),
                (good.with("authorization", "bearer x"), 403, "InvalidProviderToken"),
            ]
            let client = try test.client()
            for (push, status, reason) in cases {
                let response = try client.send(push)
                #expect(response.status == status, "\(reason)")
                #expect(response.body == #"{"reason":"\#(reason)"}"#)
            }
            for type in ["liveactivity", "Liveactivity", "LiveActivity"] {
                #expect(try client.send(good.with("apns-push-type", type)).status == 200)
            }
            #expect(try client.send(test.push()).status == 200)
        }
    }

    @Test("Devices that listen show a broadcast; a device that was off shows the last one that its channel keeps", arguments: [0, 1])
    func delivery(_ policy: Int) async throws {
        try await withControl { control in
            let test = control.test
            let channel = try ChannelRequests.create(test, ChannelRequests.manage(test), policy: policy)
            for (token, isOnline) in [("aa", true), ("bb", false), ("cc", true)] {
                try await control.call("PUT", "/v1/devices/\(token)", #"{"environment":"production","online":\#(isOnline)}"#)
            }
            for token in ["aa", "bb"] {
                let joined = try await control.call("PUT", "/v1/devices/\(token)/channels", #"{"channels":["\#(channel)"]}"#)
                #expect(joined.json?["channels"]?[0]?.stringValue == channel)
            }
            let client = try test.client()
            #expect(try client.send(ChannelRequests.broadcast(test, channel)).status == 200)
            let newer = ChannelRequests.broadcast(test, channel).body(
                #"{"aps":{"event":"update","timestamp":8,"content-state":{"score":2}}}"#)
            #expect(try client.send(newer).status == 200)
            func states(_ token: String) throws -> [String?] { try test.simulator.inbox(token).map(\.content.activity?.contentState) }
            #expect(try states("aa") == [#"{"score":2}"#])
            #expect(try states("bb") == [])
            #expect(try states("cc") == [])
            try test.simulator.setOnline(true, "bb")
            #expect(try states("bb") == (policy == 1 ? [#"{"score":2}"#] : []))
            let listed = try await control.call("GET", "/v1/channels").json?["channels"]?[0]
            #expect(listed?["published"]?.integerValue == 2)
            #expect(listed?["subscribers"]?.integerValue == 2)
            #expect(try await control.call("PUT", "/v1/devices/cc/channels", #"{"channels":["AAAA"]}"#).status == 404)
        }
    }

    @Test("A device does not show a channel's broadcast twice, whatever happens to its screen; a rotated token listens on")
    func seenOnce() async throws {
        try await withControl { control in
            let test = control.test
            let channel = try ChannelRequests.create(test, ChannelRequests.manage(test))
            try test.simulator.install("aa")
            func join(_ token: String) async throws {
                #expect(try await control.call("PUT", "/v1/devices/\(token)/channels", #"{"channels":["\#(channel)"]}"#).status == 200)
            }
            try await join("aa")
            let client = try test.client()
            #expect(try client.send(ChannelRequests.broadcast(test, channel)).status == 200)
            #expect(try test.simulator.inbox("aa").count == 1)
            try test.simulator.open("aa")
            try test.simulator.setOnline(true, "aa")
            try await join("aa")
            #expect(try test.simulator.inbox("aa").isEmpty)
            #expect(test.simulator.counters.shown == 1)
            #expect(try test.simulator.rotate("aa", to: "bb"))
            let newer = ChannelRequests.broadcast(test, channel).body(
                #"{"aps":{"event":"update","timestamp":8,"content-state":{"score":2}}}"#)
            #expect(try client.send(newer).status == 200)
            #expect(try test.simulator.inbox("bb").count == 1)
            #expect(try test.simulator.inbox("aa").isEmpty)
        }
    }

    @Test("A device that the control API uninstalls or moves to the other environment listens no more", arguments: [true, false])
    func replaced(_ isUninstalled: Bool) async throws {
        try await withControl { control in
            let test = control.test
            let channel = try ChannelRequests.create(test, ChannelRequests.manage(test))
            try test.simulator.install("aa")
            try await control.call("PUT", "/v1/devices/aa/channels", #"{"channels":["\#(channel)"]}"#)
            let state = isUninstalled ? #""production","state":"uninstalled""# : #""sandbox""#
            try await control.call("PUT", "/v1/devices/aa", #"{"environment":\#(state)}"#)
            try await control.call("PUT", "/v1/devices/aa", #"{"environment":"production"}"#)
            #expect(try test.client().send(ChannelRequests.broadcast(test, channel)).status == 200)
            #expect(try test.simulator.inbox("aa").isEmpty)
            #expect(try await control.call("GET", "/v1/channels").json?["channels"]?[0]?["subscribers"]?.integerValue == 0)
        }
    }

    @Test("A channel keeps a broadcast for eight hours at most, or as long as the sender says", arguments: [nil, 600])
    func storage(_ seconds: Int64?) async throws {
        try await withControl { control in
            let test = control.test
            let channel = try ChannelRequests.create(test, ChannelRequests.manage(test))
            for (index, token) in ["aa", "bb"].enumerated() {
                try await control.call("PUT", "/v1/devices/\(token)", #"{"environment":"production","online":false}"#)
                try await control.call("PUT", "/v1/devices/\(token)/channels", #"{"channels":["\#(channel)"]}"#)
                if index > 0 { continue }
                let expiration = seconds.map { String(test.clock.now / 1000 + $0) }
                #expect(try test.client().send(ChannelRequests.broadcast(test, channel).with("apns-expiration", expiration)).status == 200)
            }
            let longest = seconds ?? 8 * 3600
            test.clock.advance(by: .seconds(longest - 1))
            try test.simulator.setOnline(true, "aa")
            #expect(try test.simulator.inbox("aa").count == 1)
            test.clock.advance(by: .seconds(2))
            try test.simulator.setOnline(true, "bb")
            #expect(try test.simulator.inbox("bb").isEmpty)
        }
    }

    @Test("Without the capability an app has no channels, and its earlier ones are gone")
    func capability() async throws {
        try await withControl { control in
            let client = try ChannelRequests.manage(control.test)
            let channel = try ChannelRequests.create(control.test, client)
            try await control.call("PUT", "/v1/apps/\(Self.app)/broadcast", #"{"enabled":false}"#)
            let refused = try client.send(ChannelRequests.request(control.test, "GET", "/1/apps/\(Self.app)/all-channels"))
            #expect(refused.body == #"{"reason":"FeatureNotEnabled"}"#)
            try await control.call("PUT", "/v1/apps/\(Self.app)/broadcast", #"{"enabled":true}"#)
            let gone = try client.send(ChannelRequests.request(control.test, "GET", "/1/apps/\(Self.app)/channels", channel: channel))
            #expect(gone.body == #"{"reason":"ChannelNotRegistered"}"#)
        }
    }

    @Test("A certificate manages the channels of its own app, and no other's")
    func certificate() async throws {
        let certificates = try ProviderCertificates()
        try await withSimulator {
            $0.clientCAFile = certificates.authority
        } _: { test in
            let port = test.simulator.port(.production, isManagement: true)
            let client = try PushClient(port: port, certificate: certificates.make("channels"))
            let list = TestPush(method: "GET", path: "/1/apps/\(Self.app)/all-channels", headers: [], body: "")
            #expect(try client.send(list).status == 200)
            let other = try client.send(list.path("/1/apps/com.example.other/all-channels"))
            #expect(other.status == 403)
            #expect(other.body == #"{"reason":"TopicMismatch"}"#)
        }
    }

    @Test("An app has at most ten thousand channels in one environment")
    func limit() async throws {
        try await withSimulator {
            $0.streamGate = false
        } _: { test in
            let client = try ChannelRequests.manage(test)
            let request = ChannelRequests.request(
                test, "POST", "/1/apps/a/channels", #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
            var streams: [Int32] = []
            for _ in 0..<100 {
                streams = try (0..<100).map { _ in try client.submit(request) }
                try client.run { client in streams.allSatisfy { client.closed[$0] != nil } }
            }
            #expect(streams.allSatisfy { client.responses[$0]?.status == 201 })
            #expect(try client.send(request).body == #"{"reason":"CannotCreateChannelConfig"}"#)
        }
    }
}
