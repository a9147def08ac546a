import ArgumentParser
import BenchmarkSupport
import Foundation
import PushAPI

/// What a statement costs while the stored rows grow: the pages that it touches, at each size. `deploy/bench growth` starts what this
/// needs.
@main
struct GrowthBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "GrowthBenchmark", abstract: "Count the pages that the token service's statements touch, while the stored rows grow.",
        discussion: "Prints a table, and as the last line one JSON object. The database is filled: give it one of its own.")
    @Option(help: "Where the token service listens, on 127.0.0.1.") var port: Int
    @Option(help: "The file with an administrator's key.") var adminKeyFile: String
    @Option(help: "The service's database, as a superuser, with pg_stat_statements preloaded.") var postgres: String
    @Option(help: "Stored installations to measure at, ascending, separated by commas, instead of the usual ones.") var sizes: String?
    @Option(help: "Statements in the table, the hottest first.") var statements = 40
    @Option(help: "Also write the JSON object to this file.") var json: String?
    @Flag(help: "Few rows, to try the benchmark itself.") var quick = false

    /// At the largest size a statement may touch so many times the pages of the smallest. An index gets one or two levels deeper.
    private static let bar = 1.5
    /// A statement that touches no more pages than this has no bar: a few searches in deep indexes.
    private static let fewPages = 16.0

    func run() async throws {
        let sizes = try numbers()
        let database = Database(url: postgres, folder: FileManager.default.temporaryDirectory.path)
        let admin = try String(contentsOf: URL(filePath: adminKeyFile), encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
        let url = "http://127.0.0.1:\(port)"
        var keys: [String: String] = [:]
        for app in [StoredRows.app, StoredRows.smallApp] {
            keys[app] = try await PushAPI.makeApp(app, at: url, admin: admin, scopes: ["devices", "read", "send", "admin"])
        }
        try database.psql("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        let workload = try Workload(database, port: port, keys: keys)
        var rows = try StoredRows(database, webhook: workload.webhook)
        var levels: [[String: StatementPages]] = []
        var report = BenchmarkReport("growth")
        for size in sizes {
            do {
                progress("\(size) installations: filling")
                try rows.grow(to: size)
                try rows.makeDeadEntries()
                // The first run plans the statements anew and loads the catalogs.
                progress("\(size) installations: measuring")
                try workload.run(rows)
                try StatementPages.reset(database)
                try workload.run(rows)
                levels.append(try StatementPages.read(database))
            } catch {
                // The sizes before it took an hour.
                await report.add("\(size) installations") { throw error }
                break
            }
        }
        try? rows.release()
        await report.add("pages") { [levels] in try measures(levels, sizes) }
        try report.publish(json: json)
    }

    private func measures(_ levels: [[String: StatementPages]], _ sizes: [Int]) throws -> [Measure] {
        guard let smallest = levels.first, let largest = levels.last else { return [] }
        // Of a statement that ran once or twice, one page more or less is no figure. Some touch none, such as those that lock a number.
        let compared = largest.filter { name, pages in
            guard pages.calls >= 3, let before = smallest[name], before.calls >= 3 else { return false }
            return pages.pages > 0 || before.pages > 0
        }
        guard !compared.isEmpty else { throw BenchmarkError("pg_stat_statements knows none of the service's statements") }
        let hottest = compared.sorted { ($1.value.pages, $0.key) < ($0.value.pages, $1.key) }
        let all = hottest.enumerated().map { place, entry in
            let before = smallest[entry.key]
            let pages = entry.value.perCall(ofRowsAsIn: before)
            return (
                place,
                Measure(
                    name: entry.key, value: pages, unit: "pages", baseline: "at \(sizes[0])", baselineValue: before?.perCall,
                    bar: entry.value.perCall > Self.fewPages ? .ratioAtMost(Self.bar) : nil)
            )
        }
        for (name, _) in hottest {
            let figures = levels.map { level in level[name].map { "\(Measure.text($0.perCall)) (\($0.calls))" } ?? "-" }
            progress("pages (calls): \(figures.joined(separator: "  "))  \(name)")
        }
        // Those that miss the bar are shown however cold they are.
        return all.filter { $0 < statements || !$1.holds }.map(\.1)
    }

    private func numbers() throws -> [Int] {
        guard let sizes else { return quick ? [10_000, 100_000] : [100_000, 2_000_000, 20_000_000] }
        let numbers = sizes.split(separator: ",").compactMap { Int($0) }
        guard numbers.count > 1, numbers.allSatisfy({ $0 >= 1000 }), numbers == numbers.sorted() else {
            throw BenchmarkError("--sizes takes at least two numbers from 1000, ascending")
        }
        return numbers
    }
}
