import APNs
import ArgumentParser
import BenchmarkSupport
import Foundation
import StrictJSON

extension DispatcherBenchmark {
    /// Every figure of the dispatcher that has a bar, in one run: each contender in turn, round after round.
    struct Compare: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Measure dispatchers beside h2load on the same simulator, in alternating rounds.",
            discussion: "Prints a table, and as the last line one JSON object. deploy/bench starts everything that this needs.")
        @OptionGroup var broker: BrokerOptions
        @Option(help: "The dispatcher's process id, kept on the processor of --core. It is stopped (SIGSTOP) while its queue is filled.")
        var pid: Int32
        @Option(help: "The id of a dispatcher on the prefix 'single', on any processor.") var singlePid: Int32
        @Option(help: "The ids of two dispatchers on the prefix 'pair', on any processor.") var pairPid: [Int32]
        @Option(help: "The id of a dispatcher on the prefix 'traced', kept on the same processor as --pid, with a trace collector.")
        var tracedPid: Int32
        @Option(help: "The id of a dispatcher on the prefix 'pools': 150 credentials in two environments, for the apps app-0, app-1, …")
        var poolsPid: Int32
        @Option(help: "The simulator's production port on localhost.") var port: Int
        @Option(help: "The simulator's control API, http://host:port.") var control: String
        @Option(help: "The .p8 key that the simulator knows.") var keyFile: String
        @Option(help: "PEM authority of the simulator's certificate.") var caFile: String
        @Option(help: "The bare consumer's program.") var bareConsumer: String
        @Option(help: "Rounds after the warm-up.") var rounds = 5
        @Option(help: "Deliveries in each round with jobs of 100; half of it with jobs of 1.") var deliveries = 100_000
        @Option(help: "Requests of the APNs client and of h2load in each of their rounds.") var requests = 400_000
        @Option(help: "Deliveries after which the memory must be what it was.") var soak = 500_000
        @Option(help: "Connections of the dispatchers, and of h2load beside them.") var connections = 2
        @Option(help: "The processor to keep h2load and the client on; give the dispatcher the same one.") var core = 0
        @Option(help: "Also write the JSON object to this file.") var json: String?
        @Option(help: "Only these parts: client, window, queue, traces, pair, memory, pools, headers.") var part: [String] = []

        func validate() throws {
            guard rounds >= 1, deliveries >= 1000, connections >= 1, requests >= 1000, pairPid.count == 2 else {
                throw ValidationError("--rounds and --connections from 1, --deliveries and --requests from 1000, --pair-pid twice")
            }
        }

        func run() async throws {
            let h2load = try H2Load(keyFile: keyFile, core: core)
            try AnswerTimes(control: control).set()
            var report = BenchmarkReport("dispatcher", wanted: part)
            await report.add("client") { try measureClient(beside: h2load) }
            await report.add("window") { try await measureWindow() }
            await report.add("queue") { try await measureQueue(beside: h2load) }
            await report.add("traces") { try await measureTraces() }
            await report.add("pair") { try await measurePair() }
            await report.add("memory") { try await measureMemory() }
            await report.add("pools") { try await measurePools() }
            await report.add("headers") { try measureHeaders(beside: h2load) }
            try h2load.removeFiles()
            try report.publish(json: json)
        }

        /// Calls `round` for the warm-up, whose samples are dropped, and for each round; prints what each gave.
        func alternate(_ name: String, _ round: () async throws -> [(String, Sample)]) async throws -> [String: [Sample]] {
            var samples: [String: [Sample]] = [:]
            for number in 0...rounds {
                let results = try await round()
                let text = results.map { "\($0) \(Int($1.rate))/s \(String(format: "%.2f", $1.cpuMicroseconds)) us" }
                progress("\(name), \(number == 0 ? "warm-up" : "round \(number)"): \(text.joined(separator: ", "))")
                guard number > 0 else { continue }
                for (contender, sample) in results { samples[contender, default: []].append(sample) }
            }
            return samples
        }
    }
}

extension [Sample] {
    var rate: Double { median(map(\.rate)) }
    var cpuMicroseconds: Double { median(map(\.cpuMicroseconds)) }
}
