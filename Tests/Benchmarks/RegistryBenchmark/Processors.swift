import BenchmarkSupport
import Foundation

/// The processor time of each process, as the operating system accounts for it (proc(5)).
struct Processors {
    let service: Int
    let database: Database

    /// Seconds.
    struct Shares {
        var service = 0.0
        var generator = 0.0
        var postgres = 0.0
        /// Of all processors.
        var idle = 0.0

        func perOperation(_ count: Int) -> String {
            func microseconds(_ seconds: Double) -> Int { Int((seconds * 1_000_000 / Double(count)).rounded()) }
            return "us each: service \(microseconds(service)), generator \(microseconds(generator)), "
                + "PostgreSQL \(microseconds(postgres)), idle \(microseconds(idle))"
        }
    }

    func measure<Result>(_ work: () throws -> Result) throws -> (Result, Shares) {
        let before = try now(servers())
        let result = try work()
        let after = try now(Array(before.servers.keys))
        let postgres = try after.servers.reduce(0) { $0 + $1.value - (before.servers[$1.key] ?? 0) } + newServers(since: before.servers)
        let shares = Shares(
            service: after.service - before.service, generator: after.generator - before.generator, postgres: postgres,
            idle: after.idle - before.idle)
        return (result, shares)
    }

    /// The database's processes.
    private func servers() throws -> [Int] {
        try database.psql("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()").split(separator: "\n").compactMap { Int($0) }
    }

    /// The processor time of connections that the service opened meanwhile.
    private func newServers(since known: [Int: Double]) throws -> Double {
        try servers().filter { known[$0] == nil }.reduce(0) { try $0 + Self.used("\($1)") }
    }

    private func now(_ servers: [Int]) throws -> (service: Double, generator: Double, servers: [Int: Double], idle: Double) {
        // user nice system idle iowait …
        let machine = try Self.numbers("/proc/stat", after: "cpu ")
        guard machine.count > 4 else { throw BenchmarkError("/proc/stat has no line of all processors") }
        let times = try servers.map { ($0, try Self.used("\($0)")) }
        return (
            try Self.used("\(service)"), try Self.used("self"), Dictionary(uniqueKeysWithValues: times),
            (machine[3] + machine[4]) / Self.ticks
        )
    }

    /// utime and stime, the 14th and 15th field; the name in parentheses may hold spaces.
    private static func used(_ process: String) throws -> Double {
        let fields = try numbers("/proc/\(process)/stat", after: ") ")
        guard fields.count > 12 else { throw BenchmarkError("/proc/\(process)/stat is too short") }
        return (fields[11] + fields[12]) / ticks
    }

    private static func numbers(_ path: String, after prefix: String) throws -> [Double] {
        let text = try String(contentsOf: URL(filePath: path), encoding: .utf8)
        guard let start = text.range(of: prefix)?.upperBound else { throw BenchmarkError("\(path) is not what proc(5) says") }
        return text[start...].prefix { $0 != "\n" }.split(separator: " ").map { Double($0) ?? 0 }
    }

    /// USER_HZ, the same on every Linux.
    private static let ticks = 100.0
}
