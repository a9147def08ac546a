import NIOCore
import Postgres
import PushModel
import StrictJSON
import Testing

@testable import TokenServiceApps
@testable import TokenServiceUpkeep

@Suite("The bytes of pages and of answers to lists", .serialized, .timeLimit(.minutes(5)))
struct PageBytesTests {
    private static let count = 200
    private static let ids = (1...count).map { installation($0) }

    /// Installations with the tags that take the most bytes: 25 KB of JSON each, 5 MB together.
    private static func withLargestTags(_ body: @Sendable (RunningService, APITestClient, App) async throws -> Void) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let app = try await running.app()
            try await running.fill(count, app: app, owner: "ada")
            try await running.execute(
                """
                UPDATE installations SET tags = array_append(ARRAY(
                    SELECT CASE WHEN n > 100 THEN 'app:' ELSE '' END || repeat('"', 61) || lpad(n::text, 3, '0')
                        FROM generate_series(2, 200) AS n
                ), 'red')
                """)
            try await body(running, shop, app)
        }
    }

    /// The bytes of each page, and the ids of all.
    private static func pages(_ shop: APITestClient, _ path: String, _ field: String) async throws -> (bytes: [Int], ids: [String]) {
        var (bytes, ids, cursor): ([Int], [String], String?) = ([], [], nil)
        repeat {
            let next = cursor.map { "&cursor=\($0)" } ?? ""
            let answer = try await shop.get("/v1/apps/shop/\(path)limit=1000\(next)")
            try #require(answer.status == 200)
            bytes.append(answer.bytes.count)
            ids += answer.json[field]?.arrayValue?.compactMap { $0.text("id") } ?? []
            cursor = answer.json.text("next_cursor")
        } while cursor != nil && bytes.count < 50
        return (bytes, ids)
    }

    @Test("A page of installations ends behind a mebibyte, and the next ones have all the others") func installations() async throws {
        try await Self.withLargestTags { _, shop, _ in
            for path in ["installations?", "installations?tag=red&", "users/ada/installations?", "users/ada/installations?tag=red&"] {
                let (bytes, ids) = try await Self.pages(shop, path, "installations")
                #expect(ids == Self.ids.map(\.description), "\(path)")
                #expect(bytes.allSatisfy { $0 < PageBytes.maximum + 40_000 } && (5...7).contains(bytes.count), "\(path): \(bytes)")
            }
        }
    }

    @Test("A page of an export, and of a user's, ends behind a mebibyte, and the next ones have all the others") func exports() async throws
    {
        try await Self.withLargestTags { running, shop, app in
            var (cursor, found): (PushID?, [PushID]) = (nil, [])
            while true {
                let page = try await running.pool.session { [cursor] session in
                    try ExportStore(session: session, app: app).page(after: cursor, limit: InstallationExport.pageSize)
                }
                guard let last = page.last else { break }
                var lines = JSONLines()
                for each in page { lines.installation(each) }
                #expect(lines.buffer.readableBytes < PageBytes.maximum + 40_000)
                found += page.map(\.id)
                cursor = last.id
            }
            #expect(found == Self.ids)
            #expect(try await shop.export().lines.last?.number("count") == Int64(Self.count))

            var (next, items): (UserExportStore.Cursor?, Int) = (.first, 0)
            while let cursor = next {
                let page = try await running.pool.transaction(isolation: .repeatableRead) { session in
                    try UserExportStore(session, app: app, user: "ada").installations(after: cursor)
                }
                #expect(page.items.reduce(0) { $0 + $1.count } < PageBytes.maximum + 40_000)
                items += page.items.count
                next = page.next
            }
            #expect(items == Self.count)
        }
    }

    /// Else a body of 15 KB would ask for 5 MB.
    @Test("The answer to a list of registrations has the tags that the list states, and no others") func bulk() async throws {
        try await Self.withLargestTags { _, shop, _ in
            let items = Self.ids.map { #"{"id":"\#($0)","user":"ada","tokens":[]}"# } + [importLine(1, more: #","tags":["vip"]"#)]
            let answer = try await shop.post("/v1/apps/shop/installations", #"{"installations":[\#(items.joined(separator: ","))]}"#)
            let results = answer.json["results"]?.arrayValue ?? []
            #expect(results.map { $0.number("status") } == items.map { _ in 200 })
            #expect(results.dropLast().allSatisfy { $0["record"]?["tags"] == nil })
            #expect(results.last?["record"]?["tags"]?[0]?.stringValue == "vip")
            #expect(answer.bytes.count < 1000 * items.count)
        }
    }

    @Test("The answer to a list of bad registrations names ten faults of each") func faults() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let item = "{" + (1...60).map { #""f\#($0)":0"# }.joined(separator: ",") + "}"
            let answer = try await shop.post("/v1/apps/shop/installations", #"{"installations":[\#(item),\#(item)]}"#)
            #expect((answer.json["results"]?.arrayValue ?? []).map { $0["error"]?["errors"]?.arrayValue?.count } == [10, 10])
            let batch = try await shop.post(
                "/v1/apps/shop/notifications/batch", #"{"notifications":[{"notification":\#(item)},\#(item)]}"#)
            #expect((batch.json["results"]?.arrayValue ?? []).map { $0["errors"]?.arrayValue?.count } == [10, 10])
        }
    }

    @Test("A page of notifications ends behind a mebibyte, and the next ones have all the others") func notifications() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let expression = (100..<180).map { "\($0)" + String(repeating: "x", count: 61) }.joined(separator: " OR ")
            let item = #"{"notification":{"to":{"tags":"\#(expression)"},"content":{"alert":"Hello"}}}"#
            let batch = Array(repeating: item, count: Self.count).joined(separator: ",")
            let sent = try await shop.post("/v1/apps/shop/notifications/batch", #"{"notifications":[\#(batch)]}"#)
            let ids = (sent.json["results"]?.arrayValue ?? []).compactMap { $0.text("id") }
            #expect(ids.count == Self.count, "\(String(decoding: sent.bytes.prefix(300), as: UTF8.self))")
            let (bytes, found) = try await Self.pages(shop, "notifications?", "notifications")
            #expect(found == ids.sorted(by: >))
            #expect(bytes.allSatisfy { $0 < PageBytes.maximum + 10_000 } && bytes.count == 2, "\(bytes)")
        }
    }
}
