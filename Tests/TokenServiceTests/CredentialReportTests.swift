import Broker
import Postgres
import PushModel
import StrictJSON
import Testing
import TokenService

@Suite("What the token service makes of the dispatchers' credential reports", .timeLimit(.minutes(5)))
struct CredentialReportTests {
    private static let making = #"{"slug":"shop","bundle_id":"com.example.shop","device_policy":"multi","environments":["production"]}"#

    @Test("The service warns of an app until a dispatcher serves it") func unservedApp() async throws {
        try await RunningService.run { running in
            let made = try await running.client.post("/v1/admin/apps", Self.making)
            #expect(made.status == 201)
            #expect(Self.warnings(made).map { $0.contains("no dispatcher has reported a credential for shop in production") } == [true])
            let message = OutgoingMessage(
                exchange: running.topology.outcomesExchange, routingKey: CredentialReport.routingKey, messageID: .random(),
                contentType: CredentialReport.contentType, body: try Self.report(refusal: nil).encoded())
            #expect(await running.service.publisher.publish([message], deadline: .seconds(30)) == [.confirmed])
            _ = try await eventually {
                let again = try await running.client.post("/v1/admin/apps", Self.making)
                #expect(again.status == 200)
                return Self.warnings(again).isEmpty ? true : nil
            }
            // Five minutes later no dispatcher has reported it again.
            try await running.execute("UPDATE credential_reports SET reported_at = now() - interval '6 minutes'")
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
        }
    }

    private static func report(from instance: String = "d1", refusal: String? = nil, serves: Bool = true) throws -> CredentialReport {
        let credential = CredentialReport.Credential(
            kind: .key, id: "DEMO123456", environment: .production, apps: [try #require(AppSlug("shop"))], refusal: refusal)
        return CredentialReport(
            id: .random(), source: "/push/dispatcher/\(instance)", time: 1_782_214_201_125, credentials: serves ? [credential] : [])
    }

    private static func warnings(_ answer: APITestClient.Answer) -> [String] {
        (answer.json["warnings"]?.arrayValue ?? []).compactMap { $0.text("detail") }
    }
}
