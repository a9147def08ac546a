import ArgumentParser
import Foundation

/// Started by `deploy/chaos`, which builds, makes credentials and calls the checker afterwards.
@main
struct ChaosRun: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Runs the platform under load and faults, and writes down what happened for ChaosChecker to judge.",
        discussion: "Faults: " + FaultKind.allCases.map { "\($0.rawValue): \($0.meaning)." }.joined(separator: "\n"))

    @Option(help: "\(RunSize.all.map(\.name).joined(separator: ", ")).")
    var size = "small"
    @Option(help: "The same seed draws the same load and faults.")
    var seed: UInt64
    @Option(help: "Only these faults, in turn; separated by commas. 'none' for none.")
    var only: String?
    @Option(help: "So many notifications instead of the size's.")
    var notifications: Int?
    @Option(help: "So many send requests a second instead of the size's.")
    var rate: Double?
    @Option(help: "So many seconds for everything to come to its end, instead of the size's.")
    var drain: Int?
    @Option(help: "Where the ledgers go; admin.key is there already.")
    var folder: String
    @Option(help: "Where the servers keep their files.")
    var data: String
    @Option(help: "What make-credentials.sh made.")
    var credentials: String
    @Option(help: "Where the programs under test are.")
    var programs: String
    @Option(help: "Where the programs of another commit are, with which the services begin; for the faults upgrade and downgrade.")
    var otherPrograms: String?
    @Option(help: "What Tests/Support/ClockShim was made into; without it no clock is set.")
    var clockShim: String?
    @Option(help: "PUSH_DELIBERATE_FAULT for the programs under test.")
    var deliberateFault: String?
    @Option(help: "What is written down of the code.")
    var commit = "unknown"
    @Option(help: "What is written down of the call.")
    var call = ""

    func run() async throws {
        guard var size = RunSize.all.first(where: { $0.name == size }) else { throw ValidationError("there is no size '\(size)'") }
        if let notifications { size.notifications = notifications }
        if let rate { size.rate = rate }
        if let drain { size.drain = .seconds(drain) }
        let settings = RunSettings(
            size: size, seed: seed, only: try kinds(), folder: folder, dataFolder: data, credentialsFolder: credentials, programs: programs,
            otherPrograms: otherPrograms, clockShim: clockShim,
            deliberateFault: deliberateFault.map { ["PUSH_DELIBERATE_FAULT": $0] } ?? [:], commit: commit,
            command: call)
        let director = Director(settings)
        let work = Task { try await director.run() }
        // Ctrl-C stops everything in order, and the run cannot be judged.
        let interrupts = InterruptWatch { work.cancel() }
        defer { interrupts.end() }
        try await work.value
    }

    private func kinds() throws -> [FaultKind]? {
        guard let only else { return nil }
        if only == "none" { return [] }
        return try only.split(separator: ",").map { name in
            guard let kind = FaultKind(rawValue: String(name)) else { throw ValidationError("there is no fault '\(name)'") }
            return kind
        }
    }
}
