import Broker
import Postgres
import PushModel
import StrictJSON
import Testing
import TokenService
import TokenServiceApps

@Suite("What the token service makes of the dispatchers' credential reports", .timeLimit(.minutes(5)))
struct CredentialReportTests {
    private static let making = #"{"slug":"shop","bundle_id":"com.example.shop","device_policy":"multi","environments":["production"]}"#

    @Test("The service warns of an app until a dispatcher serves it") func unservedApp() async throws {
        try await RunningService.run { running in
            let made = try await running.client.post("/v1/admin/apps", Self.making)
            #expect(made.status == 201)
            #expect(Self.warnings(made).map { $0.contains("no dispatcher has reported a credential for shop in production") } == [true])
            try await Self.publish(try Self.report(), running)
            _ = try await eventually {
                let again = try await running.client.post("/v1/admin/apps", Self.making)
                #expect(again.status == 200)
                return Self.warnings(again).isEmpty ? true : nil
            }
            // Five minutes later no dispatcher has reported it again.
            try await running.execute("UPDATE dispatchers SET reported_at = now() - interval '6 minutes'")
            #expect(Self.warnings(try await running.client.post("/v1/admin/apps", Self.making)).count == 1)
        }
    }

    @Test("The newest report of each dispatcher counts") func newestReport() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            func reported(_ reports: CredentialReport...) async throws -> [String?] {
                try await running.pool.transaction { session in
                    for report in reports { try CredentialReports(session: session).replace(by: report) }
                    return try CredentialStore(session: session, app: app).credentials().map(\.refusal)
                }
            }
            #expect(try await reported(Self.report(refusal: "InvalidProviderToken")) == ["InvalidProviderToken"])
            // Another dispatcher still sends with it.
            #expect(try await reported(Self.report(from: "d2", refusal: nil)) == [nil])
            #expect(try await reported(Self.report(from: "d2", refusal: "Forbidden"), Self.report(refusal: nil)) == [nil])
            #expect(try await reported(Self.report(serves: false), Self.report(from: "d2", serves: false)) == [])
            // Of other apps.
            #expect(try await reported(Self.report(of: ["shop-2", "sho"])) == [])
            #expect(try await reported(Self.report(of: ["sho", "shop"])) == [nil])
        }
    }

    @Test("A dispatcher that starts removes those that have not reported for an hour") func goneDispatchers() async throws {
        try await RunningService.run { running in
            let (gone, new) = (try Self.report(from: "d1"), try Self.report(from: "d2"))
            try await running.pool.transaction { session in
                try CredentialReports(session: session).replace(by: gone)
                try session.execute("UPDATE dispatchers SET reported_at = now() - interval '61 minutes'")
                try CredentialReports(session: session).replace(by: new)
            }
            #expect(try await running.texts("source", "SELECT source FROM dispatchers") == [new.source])
            #expect(try await running.texts("source", "SELECT source FROM credential_reports") == [new.source])
        }
    }

    @Test("A report that waits for the database keeps no outcome waiting") func besideOutcomes() async throws {
        let patient = RunningService.Options(database: { database in
            database.lockTimeout = .seconds(240)
            database.statementTimeout = .seconds(240)
        })
        try await RunningService.run(patient) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let report = try Self.report()
            try await running.execute("INSERT INTO dispatchers (source) VALUES (\(report.source))")
            try await running.holding("SELECT FROM dispatchers FOR UPDATE") {
                try await Self.publish(report, running)
                try await running.report(.accepted, of: job, status: 200)
                _ = try await running.completed(job.notification, shop)
            }
            _ = try await eventually { try await running.count("SELECT count(*) FROM credential_reports") == 1 ? true : nil }
        }
    }

    private static func publish(_ report: CredentialReport, _ running: RunningService) async throws {
        let message = OutgoingMessage(
            exchange: running.topology.outcomesExchange, routingKey: CredentialReport.routingKey, messageID: .random(),
            contentType: CredentialReport.contentType, body: report.encoded())
        #expect(await running.service.publisher.publish([message], deadline: .seconds(30)) == [.confirmed])
    }

    private static func report(
        from instance: String = "d1", of apps: [String] = ["shop"], refusal: String? = nil, serves: Bool = true
    ) throws -> CredentialReport {
        let credential = CredentialReport.Credential(
            kind: .key, id: "DEMO123456", environment: .production, apps: try apps.map { try #require(AppSlug($0)) }, refusal: refusal)
        return CredentialReport(
            id: .random(), source: "/push/dispatcher/\(instance)", time: 1_782_214_201_125, credentials: serves ? [credential] : [])
    }

    private static func warnings(_ answer: APITestClient.Answer) -> [String] {
        (answer.json["warnings"]?.arrayValue ?? []).compactMap { $0.text("detail") }
    }
}
