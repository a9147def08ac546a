import ArgumentParser
import BenchmarkSupport
import Foundation
import SystemIO

/// The path of a notification beside the bare servers under it, which take turns in one run. `deploy/bench notifications` starts the
/// programs that this needs.
@main
struct NotificationBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "NotificationBenchmark", abstract: "Measure notifications, from the API to the simulator, beside bare servers.",
        discussion: "Prints a table, and as the last line one JSON object. The database is filled and emptied: give it one of its own.")
    @Option(help: "Where the token service listens, on 127.0.0.1.") var port: Int
    @Option(help: "The token service's process id: its memory is watched, and it is stopped (SIGSTOP) while outcomes pile up.") var pid: Int
    @Option(help: "The file with an administrator's key.") var adminKeyFile: String
    @Option(help: "The service's database, as a superuser.") var postgres: String
    @Option(help: "The broker.") var amqp: String
    @Option(help: "The dispatchers' process ids: they are stopped (SIGSTOP) where they are not measured.") var dispatcherPid: [Int32]
    @Option(help: "The simulator's control port, on 127.0.0.1.") var controlPort: Int
    @Option(help: "The simulator's journal file.") var journal: String
    @Option(help: "The bare publisher's program.") var barePublisher: String
    @Option(help: "Devices of the audience.") var devices = 1_000_000
    @Option(help: "Rounds after the warm-up.") var rounds = 5
    @Option(help: "Also write the JSON object to this file.") var json: String?
    @Flag(help: "A tenth of the devices and of the requests.") var quick = false
    @Option(help: "Only these parts: accept, activities, batch, idle, expand, backlog, late, outcomes, retention.") var part: [String] = []

    func validate() throws {
        guard rounds >= 1, devices >= 1000 else { throw ValidationError("--rounds from 1, --devices from 1000") }
    }

    func run() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "push-bench-\(ProcessInfo.processInfo.processIdentifier)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer {
            do { try FileManager.default.removeItem(atPath: folder) } catch { print("a folder stays behind: \(folder)") }
        }
        let platform = try await PlatformUnderTest(self, folder: folder)
        defer { platform.resumeEverything() }
        let audience = Audience(devices: quick ? devices / 10 : devices)
        progress("filling \(audience.devices) devices")
        try audience.fill(platform)

        var report = BenchmarkReport("notifications", wanted: part)
        await report.add("accept") { try AcceptRounds(platform, audience, requests: quick ? 6000 : 60_000).measures(rounds) }
        await report.add("activities") { try ActivityRounds(platform, requests: quick ? 2000 : 10_000).measures(rounds) }
        await report.add("batch") { try BatchRounds(platform, audience, batches: quick ? 6 : 60).measures(rounds) }
        await report.add("idle") { try IdleRounds(platform, audience, calls: quick ? 50 : 300).measures(rounds) }
        await report.add("expand") { try ExpansionRounds(platform, audience).measures(rounds) }
        await report.add("backlog") { try BacklogRounds(platform, audience).measures(rounds) }
        // A dispatcher sends no more than BULK_DELIVERIES in 80 ms: some minutes.
        await report.add("late") { try BacklogRounds(platform, audience, isLate: true).measures(quick ? min(rounds, 2) : 1) }
        await report.add("outcomes") { try OutcomeRounds(platform, audience).measures(rounds) }
        // Millions of rows take minutes to write.
        await report.add("retention") {
            let receipts = quick ? 1_000_000 : 20_000_000
            // The whole form sends for about the minute in which the receipts must be gone.
            let retention = RetentionRounds(platform, audience, requests: quick ? 20_000 : 360_000, receipts: receipts)
            return try retention.measures(quick ? rounds : 1)
        }
        try report.publish(json: json)
    }
}

/// Runs one round after the other; what the warm-up gives is shown and dropped.
func alternate<Sample>(_ rounds: Int, _ round: () throws -> (Sample, String)) throws -> [Sample] {
    var samples: [Sample] = []
    for number in 0...rounds {
        let (sample, text) = try round()
        progress("\(number == 0 ? "warm-up" : "round \(number)"): \(text)")
        if number > 0 { samples.append(sample) }
    }
    return samples
}

func milliseconds(_ seconds: Double) -> String { String(format: "%.2f ms", seconds * 1000) }

func percentile(_ values: [Double], _ share: Double) -> Double {
    let sorted = values.sorted()
    return sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]
}
