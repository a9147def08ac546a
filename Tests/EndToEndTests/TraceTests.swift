import Foundation
import Postgres
import PushAPI
import StrictJSON
import TestServers
import TestSupport
import Testing

@Suite("One notification across every hop, as a trace collector sees it", .timeLimit(.minutes(5)))
struct TraceTests {
    @Test("The request, commit, publishing, wait, dispatch, APNs request and outcome are one connected trace, through a retry too")
    func connected() async throws {
        try await Self.withCollector(ratio: "1") { platform, service, client, collector in
            let devices = try await client.registerDevices(1, user: "ada")
            try await client.script(devices[0]) { $0.object { $0.field("status", 500) } }
            let id = try await client.send("traced", to: "ada")
            #expect(try await client.completed(id).count("accepted") == 1)

            // Each process sends its spans once a second.
            let trace = try await collector.trace { spans in
                spans.contains { $0.attributes["push.notification"] == id } && spans.count >= 11
            }
            let expected = [
                "POST /v1/apps/{app}/notifications", "commit notification", "publish \(platform.brokerPrefix).jobs.now", "receive now",
                "process now",
                "POST /3/device", "receive now", "process now", "POST /3/device", "store outcomes", "store outcomes",
            ]
            #expect(trace.map(\.name).sorted() == expected.sorted())
            try Self.expectConnected(trace)
            let requests = trace.filter { $0.name == "POST /3/device" }.sorted { $0.start < $1.start }
            #expect(requests.map { $0.attributes["http.response.status_code"] } == ["500", "200"])
            #expect(requests.map(\.failed) == [true, false])
            // The second try follows the first one.
            let tries = trace.filter { $0.name == "process now" }.sorted { $0.start < $1.start }
            #expect(tries.map { $0.attributes["push.attempt"] } == ["1", "2"])
            #expect(tries[1].parent == tries[0].id)
            #expect(Set(trace.map(\.service)) == ["token-service", "dispatcher"])
            // The wait for the retry is visible. The shortest delayed queue holds a message for a second.
            let waits = trace.filter { $0.name == "receive now" }.sorted { $0.start < $1.start }
            #expect(waits[1].end - waits[1].start > 900_000_000)
        }
    }

    @Test("A sender's decision is kept: its trace goes on if it is sampled, and nothing is recorded if it is not") func senderDecides()
        async throws
    {
        try await Self.withCollector(ratio: "0") { platform, service, client, collector in
            _ = try await client.registerDevices(1, user: "ada")
            let unsampled = try await Self.send("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", platform, service, client)
            let sampled = try await Self.send("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", platform, service, client)
            _ = try await client.send("undecided", to: "ada")
            _ = try await client.completed(unsampled)
            _ = try await client.completed(sampled)
            let trace = try await collector.trace { $0.count >= 7 }
            #expect(Set(trace.map(\.trace)) == ["4bf92f3577b34da6a3ce929d0e0e4736"])
            #expect(trace.first { $0.kind == 2 }?.parent == "00f067aa0ba902b7")
            #expect(trace.count == 7, "\(trace.map(\.name))")
            #expect(Set(try await collector.spans().map(\.trace)) == ["4bf92f3577b34da6a3ce929d0e0e4736"])
        }
    }

    @Test("Each notification of a batch has a trace of its own, linked to the batch's") func batch() async throws {
        try await Self.withCollector(ratio: "1") { platform, service, client, collector in
            _ = try await client.registerDevices(1, user: "ada")
            _ = try await client.service.post("/v1/apps/\(Client.app)/notifications/batch") { body in
                body.array("notifications") { items in
                    for _ in 1...3 {
                        items.object { item in
                            item.object("notification") { notification in
                                notification.object("to") { $0.field("user", "ada") }
                                notification.object("payload") { $0.object("aps") { $0.field("alert", "a") } }
                            }
                        }
                    }
                }
            }
            let spans = try await eventually("the collector has three traces of six spans, and the request's") {
                let spans = try await collector.spans()
                let sizes = Dictionary(grouping: spans, by: \.trace).values.map(\.count)
                return sizes.count { $0 == 6 } == 3 && spans.contains { $0.name.hasSuffix("/batch") } ? spans : nil
            }
            let request = try #require(spans.first { $0.name == "POST /v1/apps/{app}/notifications/batch" })
            let accepted = spans.filter { $0.name == "accept notification" }
            #expect(accepted.count == 3 && Set(accepted.map(\.trace)).count == 3)
            #expect(accepted.allSatisfy { $0.links == [request.trace + request.id] && $0.parent.isEmpty })
            for root in accepted { try Self.expectConnected(spans.filter { $0.trace == root.trace }) }
        }
    }

    @Test("A collector that is away is in nobody's way, and gets later spans when it is back") func away() async throws {
        try await Self.withCollector(ratio: "1", refusals: 1) { platform, service, client, collector in
            _ = try await client.registerDevices(1, user: "ada")
            let id = try await client.send("first", to: "ada")
            #expect(try await client.completed(id).count("accepted") == 1)
            // The first batch was refused with 503, and is sent again.
            _ = try await collector.trace { spans in spans.contains { $0.attributes["push.notification"] == id && $0.kind == 1 } }
            await collector.process.killAndWait()
            let second = try await client.send("second", to: "ada")
            #expect(try await client.completed(second).count("accepted") == 1)
        }
    }

    @Test("Both services' log lines about a notification have its trace's id, through a retry too") func logLines() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            // Nothing listens there: the spans are lost.
            let settings = ["OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:\(try FreePorts.choose(1)[0])"]
            let service = try await platform.startTokenService(settings)
            let dispatcher = try await platform.startDispatcher(
                "dispatcher", settings.merging(["LOG_LEVEL": "debug", "MAXIMUM_ATTEMPTS": "2"]) { _, given in given })
            try await Client.with(platform, service) { client in
                let devices = try await client.registerDevices(1, user: "ada")
                try await client.script(devices[0]) { answers in
                    for _ in 1...2 { answers.object { $0.field("status", 500) } }
                }
                try await Self.refuseRows(of: "receipts", platform)
                let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
                let id = try await Self.send("00-\(trace)-00f067aa0ba902b7-01", platform, service, client)
                for (process, text) in [
                    (dispatcher.process, "Deliveries were given up and dead-lettered"),
                    (service.process, "PostgreSQL refuses every outcome of a delivery; a final one is among the dead letters"),
                ] {
                    let lines = try await eventually("\(process.name) has logged the end of the notification") {
                        let lines = Self.lines(process) { $0["notification.id"]?.stringValue == id }
                        return lines.contains { $0["msg"]?.stringValue == text } ? lines : nil
                    }
                    #expect(lines.allSatisfy { $0["trace.id"]?.stringValue == trace }, "\(process.log)")
                }
            }
        }
    }

    /// The answer of an import is written after the request's handler has returned.
    @Test("The log line about a line of an import has the request's trace id") func importedLine() async throws {
        try await withPlatform { platform in
            let service = try await platform.startTokenService()
            try await Client.with(platform, service) { client in
                try await Self.refuseRows(of: "installations", platform)
                let (trace, device) = ("4bf92f3577b34da6a3ce929d0e0e4736", Client.Device())
                _ = try await Self.post(
                    "import", #"{"id":"\#(device.installation)","user":"ada","tokens":[{"token":"\#(device.token)"}]}"#,
                    type: "application/x-ndjson", "00-\(trace)-00f067aa0ba902b7-00", platform, service, client)
                let lines = Self.lines(service.process) { $0["msg"]?.stringValue == "A line of an import failed" }
                #expect(lines.map { $0["trace.id"]?.stringValue } == [trace], "\(service.process.log)")
            }
        }
    }

    private static func refuseRows(of table: String, _ platform: Platform) async throws {
        try await platform.database.session { session in
            try session.simple(
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON \(table) FOR EACH ROW EXECUTE FUNCTION refuse()
                """)
        }
    }

    private static func lines(_ process: PlatformProcess, where isWanted: (JSONValue) -> Bool) -> [JSONValue] {
        process.log.split(separator: "\n").compactMap { try? JSONValue.parse(Array($0.utf8)) }.filter(isWanted)
    }

    /// - Returns: the notification's id.
    private static func send(
        _ traceparent: String, _ platform: Platform, _ service: RunningService, _ client: Client
    ) async throws -> String {
        let answer = try await post(
            "notifications", #"{"to":{"user":"ada"},"payload":{"aps":{"alert":"a"}}}"#, traceparent, platform, service, client)
        return try #require(try JSONValue.parse(Array(answer.utf8))["id"]?.stringValue)
    }

    private static func post(
        _ path: String, _ body: String, type: String = "application/json", _ traceparent: String, _ platform: Platform,
        _ service: RunningService, _ client: Client
    ) async throws -> String {
        let (ending, answer) = try await platform.shell(
            "curl -fsS -H 'Authorization: Bearer \(client.service.key ?? "")' -H 'Content-Type: \(type)' -H 'traceparent: \(traceparent)' "
                + "-d '\(body)' '\(service.url)/v1/apps/\(Client.app)/\(path)'")
        try #require(ending == .exited(0), "\(answer)")
        return answer
    }

    // MARK: The collector

    private static func withCollector(
        ratio: String, refusals: Int = 0, _ body: (Platform, RunningService, Client, Collector) async throws -> Void
    ) async throws {
        try await withPlatform { platform in
            let collector = try await Collector(platform, refusals: refusals)
            let settings = ["OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_TRACES_SAMPLER_ARG": ratio]
            try await platform.startSimulator()
            let service = try await platform.startTokenService(settings)
            try await platform.startDispatcher("dispatcher", settings)
            try await Client.with(platform, service) { try await body(platform, service, $0, collector) }
            if refusals == 0 { #expect(!collector.process.log.contains("refused"), "\(collector.process.log)") }
        }
    }

    /// One root, or the sender's span, and every other span's parent is there and began no later.
    private static func expectConnected(_ trace: [CollectedSpan]) throws {
        let byID = Dictionary(trace.map { ($0.id, $0) }) { first, _ in first }
        #expect(byID.count == trace.count, "span ids are unique")
        #expect(Set(trace.map(\.trace)).count == 1)
        #expect(trace.count { $0.parent.isEmpty } == 1, "one root: \(trace.map { ($0.name, $0.parent) })")
        for span in trace where !span.parent.isEmpty {
            let parent = try #require(byID[span.parent], "\(span.name) hangs in the air")
            // The dispatcher's clock counts whole milliseconds.
            #expect(parent.start <= span.start + 1_000_000, "\(span.name) began before \(parent.name)")
        }
    }
}

/// `Peers/otlp_receiver.py`, which reads OTLP with OpenTelemetry's own definitions.
private struct Collector {
    let process: PlatformProcess
    let url: String

    init(_ platform: Platform, refusals: Int) async throws {
        let python = try TestServers.python()
        let port = try FreePorts.choose(1)[0]
        url = "http://127.0.0.1:\(port)"
        process = try PlatformProcess(
            "collector", program: python,
            arguments: ["\(repositoryFolder)/Tests/EndToEndTests/Peers/otlp_receiver.py", "\(port)", "\(refusals)"],
            environment: ["PYTHONDONTWRITEBYTECODE": "1"], logFolder: platform.folder)
        _ = try await eventually("the collector answers") {
            try #require(process.isRunning, "the collector ended:\n\(process.log)")
            return try await PushAPI.with(baseURL: url, key: nil) { await $0.answers("/spans") } ? true : nil
        }
    }

    func spans() async throws -> [CollectedSpan] {
        try await PushAPI.with(baseURL: url, key: nil) { client in
            (try await client.get("/spans")["spans"]?.arrayValue ?? []).map(CollectedSpan.init)
        }
    }

    /// The spans of the first trace that is as wanted.
    func trace(_ isWanted: ([CollectedSpan]) -> Bool) async throws -> [CollectedSpan] {
        try await eventually("the collector has the trace") {
            Dictionary(grouping: try await spans(), by: \.trace).values.first(where: isWanted)
        }
    }
}

private struct CollectedSpan {
    let service, name, trace, id, parent: String
    let kind: Int64
    let start, end: Int64
    let attributes: [String: String]
    let links: [String]
    let failed: Bool

    init(_ value: JSONValue) {
        func text(_ name: String) -> String { value[name]?.stringValue ?? "" }
        (service, name, trace, id, parent) = (text("service"), text("name"), text("trace"), text("id"), text("parent"))
        kind = value["kind"]?.integerValue ?? 0
        start = value["start"]?.integerValue ?? 0
        end = value["end"]?.integerValue ?? 0
        attributes = Dictionary(
            (value["attributes"]?.objectValue ?? []).map { ($0.key, $0.value.stringValue ?? "") }
        ) { first, _ in first }
        links = (value["links"]?.arrayValue ?? []).compactMap(\.stringValue)
        failed = value["failed"]?.boolValue ?? false
    }
}
