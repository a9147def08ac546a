import ArgumentParser
import Foundation
import Glibc
import StrictJSON

extension DispatcherBenchmark {
    /// The dispatcher from the queue to the settled outcome, beside h2load against the same simulator, taking turns in one run.
    struct Compare: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Measure a dispatcher beside h2load on the same simulator, in alternating rounds.",
            discussion: "Prints a table, and as the last line one JSON object. deploy/bench starts everything that this needs.")
        @OptionGroup var broker: BrokerOptions
        @Option(help: "The dispatcher's process id. It is stopped (SIGSTOP) while the queue is filled.") var pid: Int32
        @Option(help: "The simulator, https://host:port.") var apns: String
        @Option(help: "The .p8 key that the simulator knows.") var keyFile: String
        @Option(help: "The key's id.") var keyID = "DEMO123456"
        @Option(help: "The key's team.") var teamID = "TEAM123456"
        @Option(help: "Rounds after the warm-up.") var rounds = 5
        @Option(help: "Deliveries and requests in each round.") var deliveries = 100_000
        @Option(help: "Connections of h2load; give the dispatcher the same number.") var connections = 2
        @Option(help: "The processor to keep h2load on; give the dispatcher the same one.") var core = 0
        @Option(help: "Also write the JSON object to this file.") var json: String?

        func validate() throws {
            guard rounds >= 1, deliveries >= 1000, connections >= 1 else {
                throw ValidationError("--rounds and --connections are at least 1, --deliveries at least 1000")
            }
        }

        func run() async throws {
            let h2load = try H2Load(
                origin: apns, keyFile: keyFile, keyID: keyID, teamID: teamID, connections: connections, core: core)
            var baseline: [Sample] = []
            var large: [Sample] = []
            var small: [Sample] = []
            for round in 0...rounds {
                let samples = (
                    try h2load.run(requests: deliveries), try await dispatch(deliveriesPerJob: 100), try await dispatch(deliveriesPerJob: 1)
                )
                printProgress(round, samples.0, samples.1, samples.2)
                guard round > 0 else { continue }
                baseline.append(samples.0)
                large.append(samples.1)
                small.append(samples.2)
            }
            let comparison = Comparison(
                name: "dispatcher", baseline: ("h2load", baseline), subjects: [("jobs of 100", large), ("jobs of 1", small)])
            try comparison.publish(json: json)
        }

        /// Fills the queue while the dispatcher stands still, then lets it go and waits for the last outcome.
        private func dispatch(deliveriesPerJob: Int) async throws -> Sample {
            // A tenth of the deliveries is enough where every one is a message of its own.
            let jobs = deliveriesPerJob == 1 ? deliveries / 4 : deliveries / deliveriesPerJob
            let load = try LoadOptions.parse(["--jobs", "\(jobs)", "--deliveries-per-job", "\(deliveriesPerJob)"])
            let process = try ProcessOptions.parse(["--pid", "\(pid)"])
            kill(pid, SIGSTOP)
            defer { kill(pid, SIGCONT) }
            _ = try await withPublisher(broker) { publisher, topology in try await load.fill(publisher, topology) }
            let before = try process.cpu() ?? 0
            let begin = ContinuousClock.now
            kill(pid, SIGCONT)
            let counted = try await countOutcomes(load.deliveries, broker)
            let seconds = begin.duration(to: counted.last).seconds
            guard counted.accepted == load.deliveries else {
                throw ValidationError("only \(counted.accepted) of \(load.deliveries) deliveries were accepted")
            }
            return Sample(count: load.deliveries, seconds: seconds, cpuSeconds: (try process.cpu() ?? 0) - before)
        }

        private func printProgress(_ round: Int, _ samples: Sample...) {
            let texts = samples.map { "\(Int($0.rate))/s \(String(format: "%.2f", $0.cpuMicroseconds)) us" }
            let label = round == 0 ? "warm-up" : "round \(round)"
            print("\(label): h2load \(texts[0]), jobs of 100 \(texts[1]), jobs of 1 \(texts[2])")
        }
    }
}

/// One round of one contender.
struct Sample {
    let count: Int
    let seconds: Double
    let cpuSeconds: Double

    var rate: Double { Double(count) / seconds }
    var cpuMicroseconds: Double { cpuSeconds * 1_000_000 / Double(count) }
}
