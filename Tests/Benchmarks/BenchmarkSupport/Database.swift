import Foundation

/// PostgreSQL through its own programs, which are the baselines too.
package struct Database: Sendable {
    /// A libpq URI.
    package let url: String
    /// The folder for scripts and copied rows; the server need not read it.
    package let folder: String

    package init(url: String, folder: String) {
        self.url = url
        self.folder = folder
    }

    @discardableResult
    package func psql(_ sql: String, input: String? = nil, output: String? = nil) throws -> String {
        try Command.run(
            "psql", ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql], input: input, output: output)
    }

    package func integer(_ sql: String) throws -> Int {
        let text = try psql(sql).trimmingCharacters(in: .whitespacesAndNewlines)
        guard let number = Int(text) else { throw BenchmarkError("expected a number, got '\(text)'") }
        return number
    }

    /// The processor time of each backend that serves this application, seconds, by process id. The server runs on this machine.
    package func processorTimes(of application: String) throws -> [Int: Double] {
        let backends = try psql("SELECT pid FROM pg_stat_activity WHERE application_name = '\(application)'").split(separator: "\n")
        return try Dictionary(
            uniqueKeysWithValues: backends.compactMap { Int($0) }.map { ($0, try ServiceProcess(id: $0).processorTime()) })
    }

    /// Removes disturbances of a round: dead rows, stale statistics, dirty pages.
    package func settle() throws {
        for sql in ["VACUUM (ANALYZE)", "CHECKPOINT"] { try psql(sql) }
    }

    // MARK: Baselines

    /// - Returns: Transactions per second of one script, prepared, over so many connections.
    package func pgbench(_ script: String, transactions: Int, connections: Int) throws -> Double {
        let file = "\(folder)/script.sql"
        try Data(script.utf8).write(to: URL(filePath: file))
        let output = try Command.run(
            "pgbench",
            ["-n", "-M", "prepared", "-c", "\(connections)", "-j", "2", "-t", "\(max(1, transactions / connections))", "-f", file, url])
        // "tps = 5012.345678 (without initial connection time)"
        guard let line = output.split(separator: "\n").first(where: { $0.hasPrefix("tps = ") && $0.contains("without initial") }),
            let rate = line.split(separator: " ").dropFirst(2).first.flatMap({ Double($0) })
        else { throw BenchmarkError("pgbench gave no rate:\n\(output.suffix(600))") }
        return rate
    }
}
