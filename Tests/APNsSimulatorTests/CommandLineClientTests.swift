import APNsSimulator
import Foundation
import TestIdentity
import TestServers
import Testing

/// Foreign HTTP/2 clients, so that one misreading of RFC 9113 in our client and our server shows.
@Suite("Foreign clients are served", .timeLimit(.minutes(5)))
struct CommandLineClientTests {
    init() throws { try TestServers.require() }

    @Test("curl pushes over HTTP/2 and reads the answers")
    func curl() async throws {
        try await withSimulator { test in
            func push(_ token: String, _ authorization: String) throws -> String {
                try TestIdentity.run(
                    "curl", "--silent", "--show-error", "--http2", "--cacert", test.identity.certificateFile, "--write-out",
                    " %{http_version} %{http_code}", "--header", "authorization: \(authorization)", "--header",
                    "apns-topic: \(TestPush.topic)", "--header", "apns-push-type: alert", "--data", TestPush.alert,
                    "https://localhost:\(test.simulator.productionPort)/3/device/\(token)")
            }
            let accepted = try push(TestPush.token, test.token)
            #expect(accepted == " 2 200")
            let badToken = try push("xyz", test.token)
            #expect(badToken == #"{"reason":"BadDeviceToken"} 2 400"#)
            let badCredential = try push(TestPush.token, "bearer x")
            #expect(badCredential == #"{"reason":"InvalidProviderToken"} 2 403"#)
        }
    }

    @Test("nghttp sees APNs' settings")
    func nghttp() async throws {
        try await withSimulator { test in
            let log = try TestIdentity.run(
                "nghttp", "--verbose", "--no-verify-peer", "--header", "authorization: \(test.token)", "--header",
                "apns-topic: \(TestPush.topic)", "--data", try file(TestPush.alert),
                "https://localhost:\(test.simulator.productionPort)/3/device/\(TestPush.token)")
            #expect(log.contains("SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1]"))
            #expect(log.contains("SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1000]"))
            #expect(log.contains("SETTINGS_INITIAL_WINDOW_SIZE(0x04):65535]"))
            #expect(log.contains("SETTINGS_MAX_HEADER_LIST_SIZE(0x06):8000]"))
            #expect(log.contains(":status: 200"))
        }
    }

    @Test("h2load's thousands are all answered, by several loops")
    func h2load() async throws {
        try await withSimulator {
            $0.threads = 2
            $0.streamGate = false
        } _: { test in
            let log = try TestIdentity.run(
                "h2load", "--requests=5000", "--clients=4", "--max-concurrent-streams=50", "--header=authorization: \(test.token)",
                "--header=apns-topic: \(TestPush.topic)", "--data=\(try file(TestPush.alert))",
                "https://127.0.0.1:\(test.simulator.productionPort)/3/device/\(TestPush.token)")
            #expect(log.contains("5000 succeeded, 0 failed, 0 errored"))
            #expect(test.simulator.counters.accepted == 5000)
        }
    }

    private func file(_ text: String) throws -> String {
        let path = try TestIdentity.shared.get().directory + "/\(UUID().uuidString).json"
        try Data(text.utf8).write(to: URL(filePath: path))
        return path
    }
}
