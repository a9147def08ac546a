import BenchmarkSupport

/// The tables that the import and its baseline fill and empty.
extension Database {
    /// Of `installations`, `tokens` and `installation_history`, in the order in which they may be filled.
    static let tables = ["installations", "tokens", "installation_history"]

    func empty() throws {
        try psql("TRUNCATE \((Self.tables + ["fences", "token_moves"]).joined(separator: ", ")) RESTART IDENTITY CASCADE")
        try settle()
    }

    /// Moves the rows of an import out of the tables.
    func copyOut() throws {
        for table in Self.tables { try psql("COPY (SELECT * FROM \(table)) TO STDOUT", output: file(table)) }
    }

    /// - Returns: Seconds to copy the very same rows into the very same tables.
    func copyIn() throws -> Double {
        let begin = ContinuousClock.now
        for table in Self.tables { try psql("COPY \(table) FROM STDIN", input: file(table)) }
        return begin.duration(to: .now) / .seconds(1)
    }

    private func file(_ table: String) -> String { "\(folder)/\(table).copy" }
}
