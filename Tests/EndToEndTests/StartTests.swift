import AsyncHTTPClient
import Foundation
import NIOCore
import Postgres
import PushAPI
import PushModel
import StrictJSON
import SystemIO
import TestDatabase
import TestSupport
import Testing

@Suite("A program explains why it cannot start", .timeLimit(.minutes(5)))
struct StartTests {
    @Test("OPERATIONS_PORT serves health, readiness and metrics on a port of their own, and the API's port no longer")
    func operationsPort() async throws {
        try await withPlatform { platform in
            let port = try FreePorts.choose(1)[0]
            let service = try platform.launchTokenService(["OPERATIONS_PORT": "\(port)"])
            let operations = RunningService(process: service.process, url: "http://127.0.0.1:\(port)")
            try await platform.waitUntilReady(operations)
            for path in ["healthz", "readyz", "metrics"] {
                let (ending, statuses) = try await platform.shell(
                    "for url in \(operations.url) \(service.url); do curl -sS -o /dev/null -w '%{http_code} ' $url/\(path); done")
                #expect(ending == .exited(0) && statuses == "200 404 ", "\(path): \(statuses)")
            }
        }
    }

    @Test("A program names a port that is taken, its setting, and what to do") func takenPort() async throws {
        try await withPlatform { platform in
            let other = try TCPListener(host: "127.0.0.1", port: FreePorts.choose(1)[0])
            for (setting, service) in [
                ("HTTP_PORT", try platform.launchTokenService(["HTTP_PORT": "\(other.port)"])),
                ("OPERATIONS_PORT", try platform.launchDispatcher("dispatcher", ["OPERATIONS_PORT": "\(other.port)"])),
            ] {
                #expect(await service.process.waitForEnd() == .exited(1))
                let sentence = "\(setting) \(other.port) on 127.0.0.1 is taken; stop the other program or choose another port"
                // A thread that still ends may log in the middle of the sentence, which is not written in one piece.
                let words = service.process.log.replacing(/\{"ts":.*\}\n/, with: "")
                #expect(words.contains("Error: \(sentence)\n"), "\(service.process.log)")
            }
            other.close()
        }
    }

    @Test("A program logs each missing server once, however many loops ask for it") func noServers() async throws {
        try await withPlatform { platform in
            let away = "127.0.0.1:\(FreePorts.closed)"
            let service = try platform.launchTokenService([
                "POSTGRES_URL": "postgresql://push@\(away)/push", "RABBITMQ_URL": "amqp://push@\(away)/", "RELAY_INTERVAL_MS": "10",
            ])
            let dispatcher = try platform.launchDispatcher("dispatcher", ["RABBITMQ_URL": "amqp://push@\(away)/"])
            for process in [service, dispatcher] { try await Self.failures(8, of: process) }
            let said = Self.troubles(service.process.log)
            #expect(said.count { $0.hasPrefix("The database cannot be used") } == 1, "\(said)")
            #expect(said.count { $0.hasPrefix("No connection to the broker") } == 1, "\(said)")
            #expect(said.count == 2, "\(said)")
            #expect(Self.troubles(dispatcher.process.log).count { $0.hasPrefix("No connection to the broker") } == 1)
        }
    }

    @Test("Before the first migration one line says what to run, and nothing complains of missing relations")
    func notMigrated() async throws {
        try await withPlatform { platform in
            let account = "service_\(PushID.random().description.prefix(8))"
            try await platform.database.session { session in try session.simple("CREATE ROLE \(account) LOGIN") }
            let outcome: Result<Void, any Error>
            do { outcome = .success(try await Self.startBeforeMigration(platform, account)) } catch { outcome = .failure(error) }
            await platform.endAll()
            try await platform.database.session { session in try session.simple("DROP OWNED BY \(account); DROP ROLE \(account)") }
            try outcome.get()
        }
    }

    private static func startBeforeMigration(_ platform: Platform, _ account: String) async throws {
        var uri = try #require(URLComponents(string: platform.databaseURI))
        uri.user = account
        let service = try platform.launchTokenService(["POSTGRES_URL": uri.string ?? "", "RELAY_INTERVAL_MS": "10"])
        try await PushAPI.with(baseURL: service.url, key: platform.adminKey) { client in
            _ = try await eventually("it says what it waits for") {
                service.process.log.contains("Run `token-service migrate`") ? true : nil
            }
            let refusal = await #expect(throws: (any Error).self) { try await client.get("/v1/admin/keys") }
            #expect(refusal.map { "\($0)".contains("503 database_unavailable") } == true, "\(String(describing: refusal))")
        }
        let (ending, output) = try await platform.run("token-service", ["migrate"], ["POSTGRES_URL": platform.databaseURI])
        #expect(ending == .exited(0), "\(output)")
        try await platform.database.session { session in
            try session.simple(
                """
                GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO \(account);
                GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO \(account);
                GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO \(account)
                """)
        }
        try await platform.waitUntilReady(service)
        let said = troubles(service.process.log)
        // Between the migration and the grants PostgreSQL reports another error, so the service writes the line once more.
        #expect((1...2).contains(said.count) && said.allSatisfy { $0.hasPrefix("The database is not migrated") }, "\(said)")
    }

    /// Returns when the given number of broker connections have failed.
    private static func failures(_ count: Int, of service: RunningService) async throws {
        _ = try await eventually("\(service.process.name) has tried \(count) times") {
            let answer = try? await HTTPClient.shared.execute(HTTPClientRequest(url: "\(service.url)/metrics"), timeout: .minutes(1))
            guard let body = try await answer?.body.collect(upTo: 1 << 20) else { return nil as Bool? }
            let failed = String(buffer: body).split(separator: "\n").filter { $0.hasPrefix("push_broker_connection_failures_total") }
            return failed.compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }.reduce(0, +) >= count ? true : nil
        }
    }

    /// The messages of the warnings, without those that say that they are written again because the fault lasts (every 30 s).
    private static func troubles(_ log: String) -> [String] {
        log.split(separator: "\n").compactMap { try? JSONValue.parse(Array($0.utf8)) }
            .filter { ["warning", "error"].contains($0["level"]?.stringValue) && $0["repeated"] == nil }
            .compactMap { $0["msg"]?.stringValue }
    }
}
