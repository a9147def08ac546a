import ArgumentParser

/// Loads a dispatcher and measures it from outside: jobs go into the broker, outcomes are counted as they come out.
///
/// It starts nothing itself: simulator, broker and dispatcher are the caller's. Every measurement is one JSON object on a line of its own.
@main
struct DispatcherBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "DispatcherBenchmark", abstract: "Loads a dispatcher and measures what it takes.",
        subcommands: [Fill.self, Measured.self, Run.self, Client.self, Compare.self, Fences.self])

    struct Fill: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Publish jobs, confirmed, and end.")
        @OptionGroup var broker: BrokerOptions
        @OptionGroup var load: LoadOptions

        func run() async throws {
            let took = try await withPublisher(broker) { publisher, topology in try await load.fill(publisher, topology) }
            Report(name: "fill", deliveries: load.deliveries, seconds: took.seconds).print()
        }
    }

    struct Measured: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "measure", abstract: "Wait until so many deliveries have their final outcome.")
        @OptionGroup var broker: BrokerOptions
        @OptionGroup var process: ProcessOptions
        @Option(help: "How many deliveries to wait for.") var deliveries: Int

        func run() async throws {
            try await measure(deliveries, broker, process) {}
        }
    }

    struct Run: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Publish jobs to a running dispatcher, and measure until the last outcome.")
        @OptionGroup var broker: BrokerOptions
        @OptionGroup var load: LoadOptions
        @OptionGroup var process: ProcessOptions

        func run() async throws {
            try await measure(load.deliveries, broker, process) {
                _ = try await withPublisher(broker) { publisher, topology in try await load.fill(publisher, topology) }
            }
        }
    }
}

extension Duration {
    var seconds: Double { self / .seconds(1) }
}

/// Counts until `deliveries` have their outcome, while `feed` runs, and prints the report.
private func measure(
    _ deliveries: Int, _ broker: BrokerOptions, _ process: ProcessOptions, feed: @escaping @Sendable () async throws -> Void
) async throws {
    let before = try process.cpu()
    let begin = ContinuousClock.now
    let counted = try await withThrowingTaskGroup(of: OutcomeCount?.self) { group in
        group.addTask { try await countOutcomes(deliveries, broker) }
        group.addTask {
            try await feed()
            return nil
        }
        var counted: OutcomeCount?
        for try await result in group { counted = result ?? counted }
        return counted
    }
    guard let counted else { return }
    let took = begin.duration(to: counted.last)
    let cpu = try process.cpu().flatMap { after in before.map { after - $0 } }
    Report(
        name: "dispatch", deliveries: counted.deliveries, seconds: took.seconds, accepted: counted.accepted, events: counted.events,
        repeated: counted.repeated, cpuSeconds: cpu
    ).print()
}
