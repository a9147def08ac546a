import BenchmarkSupport
import StatementSources
import StrictJSON

/// The pages that one of the service's statements touched, by PostgreSQL's own account (`pg_stat_statements`): those that it found in its
/// memory and those that it read.
struct StatementPages {
    var calls = 0
    var pages = 0

    var perCall: Double { Double(pages) / Double(max(1, calls)) }

    static func reset(_ database: Database) throws { try database.psql("SELECT pg_stat_statements_reset()") }

    /// - Returns: by the statement's name in the sources; statements of others are not in it.
    static func read(_ database: Database) throws -> [String: StatementPages] {
        let names = Dictionary(try SourceStatement.all().map { (key($0.sql), $0.name) }, uniquingKeysWith: { first, _ in first })
        let lines = try database.psql(
            """
            SELECT json_build_array(query, calls, shared_blks_hit + shared_blks_read) FROM pg_stat_statements
            WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND toplevel
            """
        ).split(separator: "\n")
        var found: [String: StatementPages] = [:]
        for line in lines {
            let row = try JSONValue.parse(Array(line.utf8), maximumBytes: 1 << 20)
            guard let query = row[0]?.stringValue, let calls = row[1]?.integerValue, let pages = row[2]?.integerValue,
                let name = names[key(query)]
            else { continue }
            found[name, default: StatementPages()].calls += Int(calls)
            found[name, default: StatementPages()].pages += Int(pages)
        }
        return found
    }

    /// The text without what PostgreSQL writes in another way: blanks, parameters, and constants, for which it puts parameters.
    private static func key(_ sql: String) -> String {
        sql.replacing(/--[^\n]*/, with: "").replacing(/[BbEeXx]?'(?:[^']|'')*'/, with: "").replacing(/\$\d+/, with: "")
            .replacing(/-?\b\d+(?:\.\d+)?\b/, with: "").replacing(/\b(?:true|false|null)\b/.ignoresCase(), with: "")
            .replacing(/\s+/, with: "").lowercased()
    }
}
