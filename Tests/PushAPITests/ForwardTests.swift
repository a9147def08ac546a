import PushAPI
import TestSupport
import Testing

@Suite("A backend forwards what the app's client library sends, and nothing else")
struct ForwardTests {
    private static let installation = "6b1f0c5e-3f0e-4a53-9a39-0d4c8a6f2b11"
    private static let root = "/v1/apps/shop/installations/\(installation)"
    private static let ada = PushAPI.DeviceSession(user: "ada", installation: installation.uppercased())

    @Test("The seven requests go as they are, and the service's answer comes back, whatever it is") func sevenRequests() async throws {
        let requests: [(method: String, path: String, body: String)] = [
            ("PUT", Self.root, #"{ "user":"ada", "tokens":[],"expected_user":"grace","app_tags":["x"]}"#),
            ("PATCH", Self.root, #"{"user":"ada","replaces":null}"#),
            ("POST", Self.root + "/logout", #"{"expected_user":"ada"}"#), ("DELETE", Self.root + "?expected_user=ada", ""),
            ("POST", Self.root + "/receipts", #"{"receipts":[]}"#),
            ("PUT", Self.root + "/activities/ride%2F1", #"{"token":"00","expected_user":"ada"}"#),
            ("DELETE", Self.root + "/activities/ride", ""),
        ]
        let script = requests.indices.map { ScriptedServer.Reply.answer($0 == 3 ? 409 : 200, #"{"number":\#($0)}"#) }
        try await ScriptedServer.run(script) { server, url in
            let shop = PushAPI.test(url).app("shop")
            for (number, request) in requests.enumerated() {
                let forwarded = PushAPI.DeviceRequest(method: request.method, path: request.path, body: Array(request.body.utf8))
                let answer = try await shop.forward(forwarded, in: Self.ada)
                #expect(answer.status == (number == 3 ? 409 : 200) && answer.body == Array(#"{"number":\#(number)}"#.utf8))
            }
            #expect(server.requests.map(\.method) == requests.map(\.method))
            #expect(server.requests.map(\.target) == requests.map(\.path))
            #expect(server.requests.map(\.body) == requests.map(\.body))
            #expect(server.requests.allSatisfy { $0.headers["authorization"] == "Bearer psh_test" })
        }
    }

    @Test(
        "A request that the client library does not make never reaches the service",
        arguments: [
            ("GET", root, ""), ("PUT", root + "/tags", #"{"tags":["staff"]}"#), ("POST", "/v1/apps/shop/import", "{}"),
            ("GET", "/v1/apps/shop/export", ""), ("POST", "/v1/apps/shop/users/ada/logout", ""),
            ("PUT", "/v1/apps/other/installations/\(installation)", #"{"user":"ada","tokens":[]}"#),
            ("PUT", "/v1/apps/shop/installations/6b1f0c5e-3f0e-4a53-9a39-0d4c8a6f2b12", #"{"user":"ada","tokens":[]}"#),
            ("PUT", root + "?tokens=full", #"{"user":"ada","tokens":[]}"#), ("DELETE", root + "?x=1", ""),
            ("DELETE", root + "?expected_user=ada&force=true", ""), ("DELETE", root + "?expected_user=ada#x", ""),
            ("PUT", root + "/activities/../tags", #"{"tags":["staff"]}"#), ("DELETE", root + "/activities/ride%2", ""),
            ("POST", root + "/activities/..", ""),
            ("PUT", root + "/", #"{"user":"ada","tokens":[]}"#), ("PUT", root, #"{"user":"ada","tokens":[],"replaces":"0a"}"#),
            ("PATCH", root, #"{"user":"ada","replaces":"0a"}"#),
        ])
    func otherRequests(method: String, path: String, body: String) async throws {
        try await expectRefusal(403, "forbidden", method, path, body, Self.ada)
    }

    @Test(
        "An installation id that is no UUID leads nowhere",
        arguments: ["../users/grace", "../tokens", "\(installation)/../../users/grace", "", "x"])
    func otherInstallations(id: String) async throws {
        let session = PushAPI.DeviceSession(user: "ada", installation: id)
        let escaped = id.split(separator: "/", omittingEmptySubsequences: false).joined(separator: "%2F")
        for place in [id, escaped] {
            let path = "/v1/apps/shop/installations/" + place
            try await expectRefusal(403, "forbidden", "POST", path + "/logout", "", session)
            try await expectRefusal(403, "forbidden", "PUT", path, #"{"user":"ada","tokens":[]}"#, session)
        }
    }

    @Test(
        "An id whose parts a server on the way could take for steps in the path is refused as what it is, and asks for no sign-in",
        arguments: [
            ("PUT", "..", "{}"), ("PUT", "..%2Ftags", #"{"tags":["staff"]}"#), ("PUT", "%2e%2E%2ftags", "{}"),
            ("PUT", "ride%2F..%2F..%2Ftags", "{}"), ("DELETE", "%2e%2e", ""), ("DELETE", "..%5C", ""), ("DELETE", "order%2F17%2F", ""),
            ("PUT", "https%3A%2F%2Fshop.example%2Fride%2F1", #"{"token":"00","expected_user":"ada"}"#), ("DELETE", "", ""),
        ])
    func otherIDs(method: String, activity: String, body: String) async throws {
        try await expectRefusal(400, "invalid_path", method, Self.root + "/activities/" + activity, body, Self.ada)
    }

    @Test(
        "A request for another user than the session's is refused, so that the app asks for a sign-in",
        arguments: [
            ("PUT", root, #"{"user":"eve","tokens":[]}"#), ("PUT", root, #"{"user":null,"tokens":[]}"#), ("PUT", root, #"{"tokens":[]}"#),
            ("PATCH", root, #"{"app_tags":[]}"#), ("PUT", root, ""),
            ("PUT", root + "/activities/ride", #"{"token":"00","expected_user":"eve"}"#),
            ("PUT", root + "/activities/ride", #"{"token":"00","expected_user":null}"#),
            ("PUT", root + "/activities/ride", #"{"token":"00"}"#),
        ])
    func otherUser(method: String, path: String, body: String) async throws {
        try await expectRefusal(401, "unauthenticated", method, path, body, Self.ada)
    }

    @Test("A body that two programs could read differently, and one that is no object, is refused") func otherBodies() async throws {
        try await expectRefusal(400, "malformed_json", "PUT", Self.root, #"{"user":"eve","tokens":[],"user":"ada"}"#, Self.ada)
        for path in ["/logout", "/receipts"] { try await expectRefusal(400, "malformed_json", "POST", Self.root + path, "[]", Self.ada) }
        let deep = String(repeating: "[", count: 30_000) + String(repeating: "]", count: 30_000)
        try await expectRefusal(400, "malformed_json", "PATCH", Self.root, #"{"user":"ada","app_tags":\#(deep)}"#, Self.ada)
    }

    @Test("An error names neither the installation nor a user: it goes into a log", arguments: [true, false])
    func errorWords(isAnswered: Bool) async throws {
        let reply: ScriptedServer.Reply = isAnswered ? .problem(403, "forbidden") : .hangUp
        try await ScriptedServer.run([reply]) { server, url in
            let request = PushAPI.DeviceRequest(method: "DELETE", path: Self.root + "?expected_user=ada", body: [])
            let error = await #expect(throws: PushAPIError.self) { try await PushAPI.test(url).app("shop").forward(request, in: Self.ada) }
            let words = try #require(error).description
            #expect(
                words.hasPrefix(
                    isAnswered ? "DELETE an installation was refused: 403 forbidden" : "DELETE an installation at \(url): no answer"))
            #expect(!String(reflecting: error).contains("ada") && !String(reflecting: error).contains(Self.installation))
            #expect(server.requests.map(\.target) == [request.path])
        }
    }

    @Test("The service's refusal of the key is the backend's own trouble: the app does not get it", arguments: [401, 403])
    func refusedKey(status: Int) async throws {
        try await ScriptedServer.run([.problem(status, "unauthenticated")]) { _, url in
            let request = PushAPI.DeviceRequest(method: "DELETE", path: Self.root, body: [])
            let error = await #expect(throws: PushAPIError.self) { try await PushAPI.test(url).app("shop").forward(request, in: Self.ada) }
            guard case .refused(let problem) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(problem.status == status && problem.code == "unauthenticated")
        }
    }

    @Test("A session that is over signs out and deregisters its own user, and does nothing else") func overSession() async throws {
        var over = Self.ada
        over.isOver = true
        for (method, path, body) in [
            ("PUT", Self.root, #"{"user":"ada","tokens":[]}"#), ("PATCH", Self.root, #"{"user":"ada"}"#),
            ("PUT", Self.root + "/activities/ride", #"{"token":"00","expected_user":"ada"}"#),
            ("POST", Self.root + "/receipts", #"{"receipts":[]}"#), ("DELETE", Self.root + "/activities/ride", ""),
            // Another user may be signed in there now.
            ("POST", Self.root + "/logout", ""), ("POST", Self.root + "/logout", "{}"), ("DELETE", Self.root, ""),
            ("POST", Self.root + "/logout", #"{"expected_user":"grace"}"#), ("POST", Self.root + "/logout", #"{"expected_user":null}"#),
            ("DELETE", Self.root + "?expected_user=grace", ""), ("DELETE", Self.root, #"{"expected_user":"ada"}"#),
        ] {
            try await expectRefusal(401, "unauthenticated", method, path, body, over)
        }
        let nobody = PushAPI.DeviceSession(user: nil, installation: Self.installation, isOver: true)
        try await expectRefusal(401, "unauthenticated", "DELETE", Self.root, "", nobody)
        try await ScriptedServer.run([.answer(200, "{}"), .answer(200, "{}"), .answer(200, "{}")]) { [over] server, url in
            for (method, path, body, session) in [
                ("POST", "/logout", #"{"expected_user":"ada"}"#, over), ("DELETE", "?expected_user=%61da", "", over),
                ("POST", "/logout", #"{"expected_user":null}"#, nobody),
            ] {
                let request = PushAPI.DeviceRequest(method: method, path: Self.root + path, body: Array(body.utf8))
                let answer = try await PushAPI.test(url).app("shop").forward(request, in: session)
                #expect(answer.status == 200)
            }
            #expect(server.requests.count == 3)
        }
    }

    @Test("A session gets a credential for its own user and installation, and for no other") func credentials() async throws {
        var over = Self.ada
        over.isOver = true
        let nobody = PushAPI.DeviceSession(user: nil, installation: Self.installation)
        let other = "6b1f0c5e-3f0e-4a53-9a39-0d4c8a6f2b12"
        let text = #"{"credential":"psd_x","installation":"i","user":null,"expires_at":"2026-11-26T12:00:00.250Z"}"#
        try await ScriptedServer.run([.answer(201, text), .answer(201, text)]) { [over] server, url in
            let shop = PushAPI.test(url).app("shop")
            for (installation, user, session) in [
                (Self.installation, "grace", Self.ada), (Self.installation, nil, Self.ada), (Self.installation, "ada", nobody),
                (other, "ada", Self.ada), (other, nil, nobody), (Self.installation, "ada", over), ("x", "ada", Self.ada),
                ("x", nil, PushAPI.DeviceSession(user: nil, installation: "x")),
                (Self.installation, "a\u{308}da", PushAPI.DeviceSession(user: "\u{e4}da", installation: Self.installation)),
            ] as [(String, String?, PushAPI.DeviceSession)] {
                let none = try await shop.deviceCredential(installation: installation, user: user) { session }
                #expect(none == nil)
            }
            #expect(server.requests.isEmpty)
            let adas = try await shop.deviceCredential(installation: Self.installation, user: "ada") { Self.ada }
            let nobodys = try await shop.deviceCredential(installation: Self.installation.uppercased(), user: nil) { nobody }
            #expect(adas != nil && nobodys != nil)
            #expect(
                server.requests.map(\.body) == [
                    #"{"installation":"\#(Self.installation)","user":"ada"}"#, #"{"installation":"\#(Self.installation)","user":null}"#,
                ])
        }
    }

    @Test("A session that ended or changed while its credential was made gets none") func endedMeanwhile() async throws {
        var over = Self.ada
        over.isOver = true
        let others = [
            over, .init(user: "grace", installation: Self.installation), .init(user: nil, installation: Self.installation),
            .init(user: "ada", installation: "6b1f0c5e-3f0e-4a53-9a39-0d4c8a6f2b12"),
        ]
        let text = #"{"credential":"psd_x","installation":"i","user":"ada","expires_at":"2026-11-26T12:00:00.250Z"}"#
        try await ScriptedServer.run(others.map { _ in .answer(201, text) }) { server, url in
            for other in others {
                let requests = server.requests.count
                let none = try await PushAPI.test(url).app("shop").deviceCredential(installation: Self.installation, user: "ada") {
                    server.requests.count == requests ? Self.ada : other
                }
                #expect(none == nil && server.requests.count == requests + 1)
            }
        }
    }

    @Test("No redirect is followed with a device's tokens") func redirect() async throws {
        try await ScriptedServer.run([.answer(307, "", headers: [("Location", "/elsewhere")])]) { server, url in
            let request = PushAPI.DeviceRequest(method: "PUT", path: Self.root, body: Array(#"{"user":"ada","tokens":[]}"#.utf8))
            let answer = try await PushAPI.test(url).app("shop").forward(request, in: Self.ada)
            #expect(answer.status == 307 && server.requests.count == 1)
        }
    }

    /// Without a request to the service: the script is empty.
    private func expectRefusal(
        _ status: Int, _ code: String, _ method: String, _ path: String, _ body: String, _ session: PushAPI.DeviceSession
    ) async throws {
        try await ScriptedServer.run([]) { server, url in
            let request = PushAPI.DeviceRequest(method: method, path: path, body: Array(body.utf8))
            let answer = try await PushAPI.test(url).app("shop").forward(request, in: session)
            #expect(answer.status == status && String(decoding: answer.body, as: UTF8.self).contains(#""code":"\#(code)""#))
            #expect(server.requests.isEmpty)
        }
    }
}
