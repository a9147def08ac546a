import Foundation
import Postgres
import StatementSources
import TestDatabase
import Testing
import TokenService

/// PostgreSQL prepares every statement of the token service against its schema, so that a misspelt table or column fails here.
@Suite("Statements", .timeLimit(.minutes(5)))
struct StatementTests {
    @Test("fit the schema") func fitTheSchema() async throws {
        let statements = try SourceStatement.all()
        #expect(statements.count > 100)
        try await withTestDatabase { pool, _ in
            try await Schema.migrator().migrate(pool)
            for statement in statements {
                do {
                    try await pool.session { session in
                        try session.simple("PREPARE statement AS \(statement.sql); DEALLOCATE statement")
                    }
                } catch {
                    Issue.record("\(statement.name): \(error)")
                }
            }
        }
    }

    @Test("the page about tables names each table once") func areOnThePage() throws {
        let folder = SourceStatement.folder
        let schema = try String(contentsOf: folder.appending(path: "Core/Migrations/m0001_schema.sql"), encoding: .utf8)
        let page = try String(contentsOf: folder.appending(path: "../../docs/tables.md"), encoding: .utf8)
        let tables = schema.matches(of: /(?m)^CREATE TABLE (\w+)/).map { String($0.1) }
        #expect(tables.count > 20)
        #expect(page.matches(of: /(?m)^\| `(\w+)` \|/).map { String($0.1) }.sorted() == tables.sorted())
    }
}
