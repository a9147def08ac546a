import Postgres
import PushModel
import StrictJSON
import Testing

@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceUpkeep

@Suite("What a user's export shows of the past", .serialized, .timeLimit(.minutes(5)))
struct UserExportTests {
    /// Each user's own time at one device, whichever user has it now: by the epochs that the deliveries carry.
    @Test("The export has what was sent to an installation that the user has left") func leftInstallation() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            var sent: [String?] = []
            for user in ["ada", "grace", "ada", "eve"] {
                try await shop.register(installation(1), user: user, token: token(1))
                sent.append(try await shop.send(#"{"installation":"\#(installation(1))"}"#).json.text("id"))
            }
            for (user, own) in [("ada", [sent[0], sent[2]]), ("grace", [sent[1]]), ("eve", [sent[3]]), ("bob", [])] {
                let export = try await running.client.post("/v1/apps/shop/users/\(user)/export").json
                let exported = (export["notifications"]?.arrayValue ?? []).map { $0.text("id") }
                #expect(exported.count == own.count && Set(exported) == Set(own), "of \(user)")
            }
        }
    }

    @Test("The export has what is stored of a start token and of APNs' words about a token") func tokens() async throws {
        try await ActivityLineTests.withPhone { running, shop in
            let report = #"{"token":"\#(token(3))","attributes_type":"Ride"}"#
            #expect(try await shop.put(ActivityLineTests.path + "/ride", report).status == 200)
            try await running.execute("UPDATE tokens SET silent_starts = 2 WHERE purpose = 'activity_start:Ride'")
            try await running.execute(
                "UPDATE tokens SET ended_by_apns_at = now(), ended_by_apns_times = 3, proven_at = now() WHERE purpose = 'alert'")
            let export = try await running.client.post("/v1/apps/shop/users/ada/export").json
            let tokens = export["installations"]?[0]?["tokens"]?.arrayValue ?? []
            func exported(_ purpose: String) throws -> JSONValue {
                try #require(tokens.first { $0.text("purpose") == purpose }, "\(export)")
            }
            let start = try exported("activity_start:Ride")
            #expect(start.text("silent_since") != nil && start.number("silent_starts") == 2 && start["ended_by_apns_times"] == nil)
            let alert = try exported("alert")
            #expect(alert.number("ended_by_apns_times") == 3 && alert.text("ended_by_apns_at") != nil && alert["silent_since"] == nil)
        }
    }

    /// A user who signs in and out at one device for years, and no other user is ever there.
    @Test("The last page of a user's many times at one installation reads no more than the first") func manyTimes() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            try await running.execute(
                """
                INSERT INTO installation_history (app_id, installation, at, event, owner_epoch, owner)
                SELECT \(app.id), \(installation(1)), now(), CASE n % 2 WHEN 0 THEN 'signed_in' ELSE 'signed_out' END, n / 2 + 1, 'ada'
                FROM generate_series(0, 3999) AS n
                """)
            try await running.pool.transaction { session in
                for (name, value) in TokenServiceConfiguration.planning { try session.simple("SET LOCAL \(name) = \(value)") }
                let times: Int64 = 500
                let line: Int64 = try session.execute(
                    "SELECT id FROM installation_history WHERE app_id = \(app.id) ORDER BY id DESC OFFSET 999 LIMIT 1"
                ).only()["id"]

                var before = try session.pagesVisitedHere(of: "installation_history")
                let page = try UserExportStore(session, app: app, user: "ada").notifications(after: .init(list: 3, line: line))
                #expect(page.items.isEmpty && page.next == nil)
                let exported = try session.pagesVisitedHere(of: "installation_history") - before
                #expect(exported > 0 && exported <= 20 * times, "an export visits \(exported) pages for \(times) times")

                before = try session.pagesVisitedHere(of: "installation_history")
                let left = try ErasureStore(session, app: app, user: "ada").noteLeft(after: line - 1, upTo: .max, limit: 1000)
                #expect(left.last == line + 999)
                let erased = try session.pagesVisitedHere(of: "installation_history") - before
                #expect(erased > 0 && erased <= 20 * times, "an erasure visits \(erased) pages for \(times) times")
                // Each begins where the one before it ended.
                let noted = try session.execute(
                    """
                    SELECT count(*) AS count, count(*) FILTER (WHERE history_to - history_from = 1
                        AND epochs_below - epochs_from = 1) AS own
                    FROM erasures
                    """
                ).only()
                let (count, own): (Int64, Int64) = (try noted["count"], try noted["own"])
                #expect(count == times && own == times)
            }
        }
    }
}
