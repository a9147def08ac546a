import BenchmarkSupport
import StatementSources
import StrictJSON

/// The pages that one of the service's statements touched, by PostgreSQL's own account (`pg_stat_statements`): those that it found in its
/// memory and those that it read.
struct StatementPages {
    var calls = 0
    var pages = 0
    /// Those that it returned or wrote.
    var rows = 0

    var perCall: Double { Double(pages) / Double(max(1, calls)) }
    private var rowsPerCall: Double { Double(rows) / Double(max(1, calls)) }

    /// - Parameter other: The same statement at another size. Its calls may have found fewer rows each, because other work came between
    ///   two of them; a call here that found twice as many counts as two, and one that found ten times as many as five.
    func perCall(ofRowsAsIn other: StatementPages?) -> Double {
        guard let other, other.rowsPerCall >= 1 else { return perCall }
        return perCall / min(Self.mostTimesRows, max(1, rowsPerCall / other.rowsPerCall))
    }

    /// More is no chance: the statement finds more because more is stored.
    private static let mostTimesRows = 5.0

    static func reset(_ database: Database) throws { try database.psql("SELECT pg_stat_statements_reset()") }

    /// - Returns: by the statement's name in the sources; statements of others are not in it.
    static func read(_ database: Database) throws -> [String: StatementPages] {
        let names = Dictionary(try SourceStatement.all().map { (key($0.sql), $0.name) }, uniquingKeysWith: { first, _ in first })
        let lines = try database.psql(
            """
            SELECT json_build_array(query, calls, shared_blks_hit + shared_blks_read, rows) FROM pg_stat_statements
            WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND toplevel
            """
        ).split(separator: "\n")
        var found: [String: StatementPages] = [:]
        for line in lines {
            let row = try JSONValue.parse(Array(line.utf8), maximumBytes: 1 << 20)
            guard let query = row[0]?.stringValue, let calls = row[1]?.integerValue, let pages = row[2]?.integerValue,
                let rows = row[3]?.integerValue, let name = names[key(query)]
            else { continue }
            found[name, default: StatementPages()].calls += Int(calls)
            found[name, default: StatementPages()].pages += Int(pages)
            found[name, default: StatementPages()].rows += Int(rows)
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
