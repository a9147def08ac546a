import Foundation
import Postgres
import TestDatabase
import Testing
import TokenService

/// PostgreSQL prepares every statement of the token service against its schema, so that a misspelt table or column fails here.
@Suite("Statements", .timeLimit(.minutes(1)))
struct StatementTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../Services/TokenService/Core").standardizedFileURL

    @Test("fit the schema") func fitTheSchema() async throws {
        let statements = try Self.statements()
        #expect(statements.count > 100)
        try await withTestDatabase { pool, _ in
            try await Schema.migrator().migrate(pool)
            for (place, sql) in statements {
                do {
                    try await pool.session { session in try session.simple("PREPARE statement AS \(sql); DEALLOCATE statement") }
                } catch {
                    Issue.record("\(place): \(error)")
                }
            }
        }
    }

    @Test("the page about tables names each table once") func areOnThePage() throws {
        let schema = try String(contentsOf: Self.folder.appending(path: "Migrations/m0001_schema.sql"), encoding: .utf8)
        let page = try String(contentsOf: Self.folder.appending(path: "../../../docs/tables.md"), encoding: .utf8)
        let tables = schema.matches(of: /(?m)^CREATE TABLE (\w+)/).map { String($0.1) }
        #expect(tables.count > 20)
        #expect(page.matches(of: /(?m)^\| `(\w+)` \|/).map { String($0.1) }.sorted() == tables.sorted())
    }

    /// Literals in the sources that begin with a command. An interpolated value is a parameter, as in ``PostgresQuery``.
    private static func statements() throws -> [(place: String, sql: String)] {
        let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)).compactMap { $0 as? URL }
        let literal = /"""\n(?<long>[\s\S]*?)\n *"""|"(?<short>[^"\n]*)"/
        return try files.filter { $0.pathExtension == "swift" }.flatMap { file in
            try String(contentsOf: file, encoding: .utf8).matches(of: literal).compactMap { match in
                let sql = numbered(String(match.output.long ?? match.output.short ?? ""))
                guard sql.contains(/^\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\s/) else { return nil }
                return (file.lastPathComponent, sql)
            }
        }
    }

    private static func numbered(_ text: String) -> String {
        var (sql, rest, count) = ("", text[...], 0)
        while let start = rest.range(of: #"\("#) {
            sql += rest[..<start.lowerBound]
            count += 1
            sql += "$\(count)"
            var depth = 1
            rest = rest[start.upperBound...].drop { character in
                if character == "(" { depth += 1 }
                if character == ")" { depth -= 1 }
                return depth > 0
            }.dropFirst()
        }
        return (sql + rest).replacing("\\\\", with: "\\")
    }
}
