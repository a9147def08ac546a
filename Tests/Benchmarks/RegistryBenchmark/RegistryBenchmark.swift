import ArgumentParser
import BenchmarkSupport
import Foundation
import PushAPI
import SystemIO

/// The registry over HTTP beside its bare database, taking turns in one run. `deploy/bench registry` starts what this needs.
@main
struct RegistryBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "RegistryBenchmark", abstract: "Measure a token service's registry beside the bare database.",
        discussion: "Prints a table, and as the last line one JSON object. The database is emptied and filled: give it one of its own.")
    @Option(help: "Where the service listens, on 127.0.0.1.") var port: Int
    @Option(help: "The service's process id: its memory is watched.") var pid: Int
    @Option(help: "The file with an administrator's key.") var adminKeyFile: String
    @Option(help: "The service's database, as a superuser: it is emptied.") var postgres: String
    @Option(help: "Database connections of the service, and of pgbench.") var databaseConnections = 8
    @Option(help: "Clients of the service.") var clients = 32
    @Option(help: "Rounds after the warm-up.") var rounds = 5
    @Option(help: "Also write the JSON object to this file.") var json: String?
    @Flag(help: "A hundredth of the rows and a tenth of the requests, to try the benchmark itself.") var quick = false
    @Flag(help: "Leave the import out.") var skipImport = false
    @Flag(help: "Leave the reads out.") var skipReads = false
    @Option(help: "Stored installations to measure at, ascending, separated by commas, instead of the usual ones.") var stored: String?

    func validate() throws {
        guard rounds >= 1, clients >= 1, databaseConnections >= 1 else {
            throw ValidationError("--rounds, --clients and --database-connections are at least 1")
        }
    }

    func run() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "push-bench-\(ProcessInfo.processInfo.processIdentifier)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer {
            do { try FileManager.default.removeItem(atPath: folder) } catch { print("a folder stays behind: \(folder)") }
        }
        let database = Database(url: postgres, folder: folder)
        let load = try LoadGenerator(host: "127.0.0.1", port: port, connections: clients)
        let admin = try String(contentsOf: URL(filePath: adminKeyFile), encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
        let key = try await PushAPI.makeApp(Population.app, at: "http://127.0.0.1:\(port)", admin: admin, scopes: ["devices", "read"])
        let app = try database.integer("SELECT id FROM apps WHERE slug = '\(Population.app)'")

        var report = BenchmarkReport("registry")
        if !skipImport { await report.add("import") { try measureImport(database, load.address, key: key) } }
        var levels: [Level] = []
        await report.add("levels") {
            try measureLevels(database, load, key: key, app: app) { levels.append($0) }
            return []
        }
        // Those that were measured, if a later one fails.
        await report.add("levels") { Self.measures(of: levels, connections: databaseConnections) }
        try report.publish(json: json)
    }

    // MARK: Import

    private func measureImport(_ database: Database, _ address: SocketAddress, key: String) throws -> [Measure] {
        let count = quick ? 10_000 : 1_000_000
        let round = ImportRound(address: address, key: key, process: ServiceProcess(id: pid), installations: count)
        var imports: [ImportRound.Result] = []
        var copies: [Double] = []
        for number in 0...rounds {
            try database.empty()
            let imported = try round.run()
            if number == 0 { try database.copyOut() }
            try database.empty()
            let copied = Double(count) / (try database.copyIn())
            progress("import, \(Self.label(number)): \(Int(imported.rate))/s, \(Int(imported.peak)) MiB above idle; COPY \(Int(copied))/s")
            guard number > 0 else { continue }
            imports.append(imported)
            copies.append(copied)
        }
        return [
            Measure(
                name: "import of \(count) installations", value: median(imports.map(\.rate)), unit: "installations/s", baseline: "COPY",
                baselineValue: median(copies), bar: .ratioAtLeast(0.3)),
            // The warm-up's peak counts too: it is the first import of the process.
            Measure(
                name: "import, peak memory above idle", value: imports.map(\.peak).max() ?? 0, unit: "MiB", baseline: "idle",
                baselineValue: median(imports.map(\.idle)), bar: .valueAtMost(64)),
        ]
    }

    // MARK: Registrations and reads at growing sizes

    private func measureLevels(
        _ database: Database, _ load: LoadGenerator, key: String, app: Int, _ measured: (Level) -> Void
    ) throws {
        try database.empty()
        let sizes = try sizes()
        // Far above the stored numbers, so that the two never meet.
        var fresh = 1_000_000_000
        var stored = 0
        for size in sizes {
            progress("filling up to \(size) installations")
            try database.psql(Population.fill(from: stored, to: size, app: app))
            try database.settle()
            stored = size
            var mix = RequestMix(key: key, stored: size, fresh: fresh, seed: UInt64(size))
            defer { fresh = mix.end }
            measured(try measure(Level(size: size), database, load, &mix, app: app))
        }
    }

    private func measure(_ level: Level, _ database: Database, _ load: LoadGenerator, _ mix: inout RequestMix, app: Int) throws -> Level {
        let requests = quick ? 3000 : 30_000
        let processors = Processors(service: pid, database: database)
        var level = level
        let (refresh, read) = (BareSQL.refresh(app: app, population: level.size), BareSQL.read(app: app, population: level.size))
        for number in 0...rounds {
            let writing = mix.registrations(requests)
            let (registrations, shares) = try processors.measure { try load.run(writing) }
            let refreshes = try database.pgbench(refresh, transactions: requests, connections: databaseConnections)
            progress(
                """
                \(level.size) stored, \(Self.label(number)): registrations \(Int(registrations.rate))/s (\(shares.perOperation(requests))),
                """
                    + " bare refresh \(Int(refreshes))/s")
            if number > 0 {
                level.registrations.append(registrations)
                level.refreshes.append(refreshes)
            }
            guard !skipReads else { continue }
            let reading = mix.reads(requests)
            let reads = try load.run(reading)
            let queries = try database.pgbench(read, transactions: requests, connections: databaseConnections)
            progress("\(level.size) stored, \(Self.label(number)): reads \(Int(reads.rate))/s, bare query \(Int(queries))/s")
            guard number > 0 else { continue }
            level.reads.append(reads)
            level.queries.append(queries)
        }
        return level
    }

    private func sizes() throws -> [Int] {
        guard let stored else { return quick ? [1000, 10_000, 50_000] : [10_000, 1_000_000, 5_000_000] }
        let sizes = stored.split(separator: ",").compactMap { Int($0) }
        guard !sizes.isEmpty, sizes.allSatisfy({ $0 >= 100 }), sizes == sizes.sorted() else {
            throw BenchmarkError("--stored takes numbers of at least 100, ascending")
        }
        return sizes
    }

    private static func label(_ round: Int) -> String { round == 0 ? "warm-up" : "round \(round)" }
}
