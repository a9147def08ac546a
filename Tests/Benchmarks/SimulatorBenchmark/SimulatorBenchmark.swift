import APNsSimulator
import ArgumentParser
import BenchmarkSupport

/// The simulator beside nghttpd, both loaded by h2load, taking turns in one run. `deploy/bench simulator` starts what this needs.
@main
struct SimulatorBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "SimulatorBenchmark", abstract: "Measure a simulator beside nghttpd with an empty file, in alternating rounds.",
        discussion: "Prints a table, and as the last line one JSON object.")
    @Option(help: "The simulator, https://host:port.") var apns: String
    @Option(help: "Its process id.") var pid: Int
    @Option(help: "Its journal file: everything must be in it.") var journal: String
    @Option(help: "nghttpd, https://host:port; its document root has the empty file 'empty'.") var nghttpd: String
    @Option(help: "Its process id.") var nghttpdPID: Int
    @Option(help: "The .p8 key that the simulator knows.") var keyFile: String
    @Option(help: "Rounds after the warm-up.") var rounds = 5
    @Option(help: "Requests in each round.") var requests = 300_000
    @Option(help: "Connections of h2load.") var connections = 4
    @Option(help: "The processor to keep h2load on; the servers have another one.") var core = 0
    @Option(help: "Also write the JSON object to this file.") var json: String?

    func validate() throws {
        guard rounds >= 1, requests >= 1000, connections >= 1 else {
            throw ValidationError("--rounds and --connections are at least 1, --requests at least 1000")
        }
    }

    func run() async throws {
        var report = BenchmarkReport("simulator")
        await report.add("rates") { try rates() }
        await report.add("journal") {
            let lost = try missing(of: requests * (rounds + 1))
            return [Measure(name: "requests missing from the journal file", value: Double(lost), unit: "requests", bar: .valueAtMost(0))]
        }
        try report.publish(json: json)
    }

    private func rates() throws -> [Measure] {
        let load = try PushLoad(keyFile: keyFile, requests: requests, connections: connections, core: core)
        let contenders = [
            Contender(name: "simulator", process: pid, targets: try load.targets("\(apns)/3/device/")),
            // The same number of bytes to read, and a file to find. nghttpd ignores the text after the question mark.
            Contender(name: "nghttpd", process: nghttpdPID, targets: try load.targets("\(nghttpd)/empty?pad=")),
            // The smallest possible request; only the first one carries its path.
            Contender(name: "nghttpd, one path", process: nghttpdPID, targets: try load.target("\(nghttpd)/empty")),
        ]
        var samples = contenders.map { _ in [Sample]() }
        for round in 0...rounds {
            var line = round == 0 ? "warm-up:" : "round \(round):"
            for (index, contender) in contenders.enumerated() {
                let sample = try load.run(contender)
                line += " \(contender.name) \(Int(sample.rate))/s \(Measure.text(sample.cpuMicroseconds)) us;"
                if round > 0 { samples[index].append(sample) }
            }
            print(line)
        }
        return measures(samples[0], samples[1], samples[2])
    }

    private func measures(_ simulator: [Sample], _ same: [Sample], _ fixed: [Sample]) -> [Measure] {
        let value = median(simulator.map(\.rate))
        return [
            Measure(
                name: "rate, the same requests", value: value, unit: "requests/s", baseline: "nghttpd",
                baselineValue: median(same.map(\.rate)), bar: .ratioAtLeast(0.8)),
            Measure(
                name: "rate, nghttpd with one fixed path", value: value, unit: "requests/s", baseline: "nghttpd",
                baselineValue: median(fixed.map(\.rate)), bar: .ratioAtLeast(0.8)),
            Measure(
                name: "CPU of the server, the same requests", value: median(simulator.map(\.cpuMicroseconds)), unit: "us/request",
                baseline: "nghttpd", baselineValue: median(same.map(\.cpuMicroseconds))),
            Measure(
                name: "slowest round", value: simulator.map(\.rate).min() ?? 0, unit: "requests/s", bar: .valueAtLeast(100_000)),
        ]
    }

    /// Reads the whole journal: each request once, in order, without a gap.
    private func missing(of sent: Int) throws -> Int {
        var reader = try JournalFileReader(path: journal)
        var expected: Int64 = 1
        while let entry = try reader.next() {
            guard entry.sequence == expected, entry.status == 200 else {
                throw ValidationError("entry \(entry.sequence) of the journal is out of place")
            }
            expected += 1
        }
        return abs(sent - Int(expected - 1))
    }
}

/// One that is loaded.
struct Contender {
    let name: String
    let process: Int
    /// A file of addresses.
    let targets: String
}
