import Postgres
import StrictJSON
import Testing

@Suite("What fails through the service's own fault", .timeLimit(.minutes(5)))
struct InternalErrorTests {
    /// A request, an item of a list, a line of an import, an item of a batch and an export.
    @Test("Each such failure is answered as internal_error, logged and counted once, also within a larger answer") func counted()
        async throws
    {
        let lines = LogLines()
        try await RunningService.run(.init(logger: lines.logger)) { running in
            let shop = try await running.client.makeApp()
            #expect(try await shop.importLines([importLine(2)]).lines.last?.number("created") == 1)
            #expect(try await Self.counted(shop) == 0)
            try await running.execute("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'")
            try await running.execute("CREATE TRIGGER refuse BEFORE INSERT ON installations FOR EACH ROW EXECUTE FUNCTION refuse()")
            try await running.execute("CREATE TRIGGER refuse BEFORE INSERT ON notifications FOR EACH ROW EXECUTE FUNCTION refuse()")

            let tokens = #""tokens":[{"token":"\#(token(1))"}]"#
            let alone = try await shop.put("/v1/apps/shop/installations/\(installation(1))", #"{"user":"ada",\#(tokens)}"#)
            #expect(alone.status == 500 && alone.code == "internal_error")
            let bulk = try await shop.post("/v1/apps/shop/installations", #"{"installations":[\#(importLine(1))]}"#)
            #expect(bulk.json["results"]?.arrayValue?.first?["error"]?.text("code") == "internal_error", "\(bulk.json.written)")
            let imported = try await shop.importLines([importLine(1)])
            #expect(try imported.lines.first?["error"]?.text("code") == "internal_error", "\(imported.texts)")
            let item = #"{"notification":{"to":{"user":"ada"},"payload":{"aps":{"alert":"hello"}}}}"#
            let batch = try await shop.post("/v1/apps/shop/notifications/batch", #"{"notifications":[\#(item)]}"#)
            #expect(batch.json["results"]?.arrayValue?.first?.text("code") == "internal_error", "\(batch.json.written)")
            try await running.execute("ALTER TABLE installations RENAME COLUMN locale TO language")
            let exported = try await shop.export()
            #expect(try exported.lines.last?["error"]?.text("code") == "internal_error", "\(exported.texts)")

            // No caller's fault is among them.
            #expect(try await shop.put("/v1/apps/shop/installations/\(installation(1))", "{}").status == 400)
            #expect(try await Self.counted(shop) == 5)
            for message in ["A request", "An item of a bulk registration", "A line of an import", "An item of a batch", "An export"] {
                #expect(lines.all.count { $0.hasPrefix("\(message) failed") } == 1, "\(message)")
            }
        }
    }

    private static func counted(_ client: APITestClient) async throws -> Int? {
        let page = String(decoding: try await client.get("/metrics").bytes, as: UTF8.self)
        let name = "push_token_service_internal_errors_total "
        return page.split(separator: "\n").first { $0.hasPrefix(name) }.flatMap { Int($0.dropFirst(name.count)) }
    }
}
