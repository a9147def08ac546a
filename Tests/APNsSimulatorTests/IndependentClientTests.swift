import APNsSimulator
import Foundation
import OpenSSL
import StrictJSON
import TestIdentity
import TestServers
import Testing

/// Foreign APNs clients and HTTP/2 stacks from the Python package index. Their view of APNs is proven by their users.
@Suite("Independent client libraries are served, and read the documented errors", .timeLimit(.minutes(5)))
struct IndependentClientTests {
    enum Client: String, CaseIterable {
        case aioapns = "with_aioapns.py"
        case httpx = "with_httpx.py"
    }

    struct Answer: Equatable {
        let status: Int64?
        let reason: String?
        let timestamp: Int64?

        init(_ status: Int64, _ reason: String? = nil, timestamp: Int64? = nil) {
            self.status = status
            self.reason = reason
            self.timestamp = timestamp
        }

        init(_ line: some StringProtocol) throws {
            let json = try JSONValue.parse(Array(line.utf8))
            status = json["status"]?.integerValue
            reason = json["reason"]?.stringValue
            timestamp = json["timestamp"]?.integerValue
        }
    }

    private static let gone = String(repeating: "dead", count: 16)
    private static let other = String(repeating: "beef", count: 16)
    private static let busy = String(repeating: "b0b0", count: 16)

    /// A request and its expected answer.
    private static let exchanges: [(request: String, answer: Answer)] = [
        (alert(#""token":"\#(TestPush.token)""#), Answer(200)),
        (alert(#""token":"\#(TestPush.token)","id":"0a1b2c3d-0000-4000-8000-000000000001","priority":5,"collapse_id":"x""#), Answer(200)),
        (alert(#""token":"\#(TestPush.token)","id":"0A1B2C3D-0000-4000-8000-00000000000F""#), Answer(200)),
        (alert(#""token":"\#(TestPush.token)","count":200"#), Answer(200)),
        (alert(#""token":"xyz""#), Answer(400, "BadDeviceToken")), (alert(#""token":"\#(other)""#), Answer(400, "DeviceTokenNotForTopic")),
        (alert(#""token":"\#(gone)""#), Answer(410, "Unregistered", timestamp: 1_700_000_000_123)),
        (alert(#""token":"\#(TestPush.token)","priority":7"#), Answer(400, "BadPriority")),
        (alert(#""token":"\#(TestPush.token)","push_type":"voip""#), Answer(400, "BadTopic")),
        (alert(#""token":"\#(TestPush.token)","collapse_id":"\#(String(repeating: "c", count: 65))""#), Answer(400, "BadCollapseId")),
        (
            #"{"token":"\#(TestPush.token)","payload":{"aps":{"alert":"\#(String(repeating: "x", count: 4096))"}}}"#,
            Answer(413, "PayloadTooLarge")
        ),
        (alert(#""token":"\#(busy)""#), Answer(429, "TooManyRequests")),
        (alert(#""token":"\#(busy)""#), Answer(500, "InternalServerError")),
        (alert(#""token":"\#(busy)""#), Answer(503, "ServiceUnavailable")), (alert(#""token":"\#(busy)""#), Answer(200)),
    ]

    private static func alert(_ fields: String) -> String { #"{\#(fields),"payload":{"aps":{"alert":"Hello"}}}"# }

    @Test("Clients get 200s, and every error with its reason", arguments: Client.allCases)
    func served(_ client: Client) async throws {
        try await withSimulator { configuration in
            // aioapns 4.0 miscounts its free streams when the limit falls, and waits for ever.
            configuration.streamPenalty = client != .aioapns
        } _: { test in
            try test.simulator.install(Self.other, topics: ["com.example.other"])
            try test.simulator.install(Self.gone)
            try test.simulator.uninstall(Self.gone, since: 1_700_000_000_123)
            try test.simulator.script(
                Self.busy, [.reject(.tooManyRequests), .reject(.internalServerError), .reject(.serviceUnavailable)])
            let answers = try run(client, test, Self.exchanges.map(\.request))
            for (index, exchange) in Self.exchanges.enumerated() {
                #expect(answers.count > index && answers[index] == exchange.answer, "\(exchange.request)")
            }
            #expect(test.simulator.counters.accepted == 204)
        }
    }

    @Test("Clients report a key that the server does not know", arguments: Client.allCases)
    func unknownKey(_ client: Client) async throws {
        try await withSimulator { test in
            test.simulator.revoke(keyID: TestIdentity.keyID)
            let answers = try run(client, test, [Self.alert(#""token":"\#(TestPush.token)""#)])
            #expect(answers == [Answer(403, "InvalidProviderToken")])
        }
    }

    @Test("A bare HTTP client gets the errors that a library prevents")
    func bareErrors() async throws {
        try await withSimulator { test in
            let requests = [
                Self.alert(#""token":"\#(TestPush.token)","method":"PUT""#), Self.alert(#""path":"/3/devices/00""#),
                Self.alert(#""path":"/3/device/""#), Self.alert(#""token":"\#(TestPush.token)","push_type":"loud""#),
                // Not with aioapns: it fails if the answer has another apns-id than the request.
                Self.alert(#""token":"\#(TestPush.token)","id":"not-an-id""#),
                Self.alert(#""token":"\#(TestPush.token)","headers":{"apns-expiration":"soon"}"#),
                Self.alert(#""token":"\#(TestPush.token)","headers":{"authorization":""}"#),
            ]
            let expected = [
                Answer(405, "MethodNotAllowed"), Answer(404, "BadPath"), Answer(400, "MissingDeviceToken"), Answer(400, "InvalidPushType"),
                Answer(400, "BadMessageId"),
                Answer(400, "BadExpirationDate"), Answer(403, "MissingProviderToken"),
            ]
            let answers = try run(.httpx, test, requests)
            #expect(answers == expected)
        }
    }

    /// - Returns: An answer for each request.
    private func run(_ client: Client, _ test: TestSimulator, _ requests: [String]) throws -> [Answer] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent()
        let python = try TestServers.python()
        let keyFile = test.identity.directory + "/\(UUID().uuidString).p8"
        try Data(test.identity.key.pem().utf8).write(to: URL(filePath: keyFile))
        let process = Process()
        process.executableURL = URL(filePath: python)
        process.arguments = [
            folder.appending(path: "Clients/\(client.rawValue)").path(), "\(test.simulator.productionPort)", test.identity.certificateFile,
            keyFile, TestIdentity.keyID, TestIdentity.teamID, TestPush.topic,
        ]
        let (input, output, complaints) = (Pipe(), Pipe(), Pipe())
        (process.standardInput, process.standardOutput, process.standardError) = (input, output, complaints)
        try process.run()
        try input.fileHandleForWriting.write(contentsOf: Data((requests.joined(separator: "\n") + "\n").utf8))
        try input.fileHandleForWriting.close()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let complaint = String(decoding: complaints.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "\(client.rawValue): \(complaint.suffix(2000))")
        return try text.split(separator: "\n").map { try Answer($0) }
    }
}
