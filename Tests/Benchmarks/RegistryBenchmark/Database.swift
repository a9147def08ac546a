import Foundation

/// PostgreSQL through its own programs, which are the baselines too.
struct Database {
    /// A libpq URI.
    let url: String
    /// Where scripts and copied rows go; the server need not read it.
    let folder: String

    /// Of `installations`, `tokens` and `installation_history`, in the order in which they may be filled.
    static let tables = ["installations", "tokens", "installation_history"]

    @discardableResult
    func psql(_ sql: String, input: String? = nil, output: String? = nil) throws -> String {
        try Command.run(
            "psql", ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql], input: input, output: output)
    }

    func integer(_ sql: String) throws -> Int {
        let text = try psql(sql).trimmingCharacters(in: .whitespacesAndNewlines)
        guard let number = Int(text) else { throw BenchmarkError("expected a number, got '\(text)'") }
        return number
    }

    /// What a round should not be disturbed by: dead rows, stale statistics, dirty pages.
    func settle() throws {
        for sql in ["VACUUM (ANALYZE)", "CHECKPOINT"] { try psql(sql) }
    }

    func empty() throws {
        try psql("TRUNCATE \((Self.tables + ["fences", "token_moves"]).joined(separator: ", ")) RESTART IDENTITY CASCADE")
        try settle()
    }

    // MARK: Baselines

    /// - Returns: Transactions per second of one script, prepared, over so many connections.
    func pgbench(_ script: String, transactions: Int, connections: Int) throws -> Double {
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

    /// Puts aside what an import has left in the tables.
    func copyOut() throws {
        for table in Self.tables { try psql("COPY \(table) TO STDOUT", output: file(table)) }
    }

    /// - Returns: Seconds to copy the very same rows into the very same tables.
    func copyIn() throws -> Double {
        let begin = ContinuousClock.now
        for table in Self.tables { try psql("COPY \(table) FROM STDIN", input: file(table)) }
        return begin.duration(to: .now) / .seconds(1)
    }

    private func file(_ table: String) -> String { "\(folder)/\(table).copy" }
}

/// A program that runs to its end.
enum Command {
    /// - Parameters:
    ///   - input: A file to read from.
    ///   - output: A file to write to, instead of the answer.
    static func run(_ program: String, _ arguments: [String], input: String? = nil, output: String? = nil) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [program] + arguments
        let (said, complaints) = (Pipe(), Pipe())
        process.standardInput = try input.map { try FileHandle(forReadingFrom: URL(filePath: $0)) } ?? FileHandle.nullDevice
        process.standardError = complaints
        if let output {
            try Data().write(to: URL(filePath: output))
            process.standardOutput = try FileHandle(forWritingTo: URL(filePath: output))
        } else {
            process.standardOutput = said
        }
        try process.run()
        let text = output == nil ? String(decoding: said.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self) : ""
        let complaint = String(decoding: complaints.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw BenchmarkError("\(program) failed: \(complaint.suffix(600))") }
        return text
    }
}
