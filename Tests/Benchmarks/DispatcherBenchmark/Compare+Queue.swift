import ArgumentParser
import BenchmarkSupport
import Broker
import Foundation
import Glibc
import PushModel

/// From the queue to the settled outcome: consuming, decoding, sending, outcomes with confirms, acknowledging.
extension DispatcherBenchmark.Compare {
    func measureQueue(beside h2load: H2Load) async throws -> [Measure] {
        let load = H2Load.Load(requests: requests / 2, connections: connections)
        let samples = try await alternate("queue") {
            [
                ("h2load", try h2load.run(load, at: "https://localhost:\(port)")),
                ("jobs of 100", try await dispatch(deliveries / 100, of: 100, by: [pid], on: broker)),
                ("jobs of 1", try await dispatch(deliveries / 2, of: 1, by: [pid], on: broker)),
                ("bare consumer", try await takeBare(deliveries / 2)),
            ]
        }
        let (bare, baseline) = (samples["bare consumer"] ?? [], samples["h2load"] ?? [])
        var measures: [Measure] = []
        for (name, bar) in [("jobs of 100", 1.7), ("jobs of 1", 4.0)] {
            let ours = samples[name] ?? []
            measures.append(
                Measure(
                    name: "queue: CPU, \(name)", value: ours.cpuMicroseconds, unit: "us/delivery", baseline: "h2load",
                    baselineValue: baseline.cpuMicroseconds, bar: .ratioAtMost(bar)))
            measures.append(
                Measure(
                    name: "queue: rate, \(name)", value: ours.rate, unit: "deliveries/s", baseline: "h2load", baselineValue: baseline.rate))
        }
        let small = samples["jobs of 1"] ?? []
        measures.append(
            Measure(
                name: "queue: rate, jobs of 1, beside taking alone", value: small.rate, unit: "deliveries/s", baseline: "bare consumer",
                baselineValue: bare.rate))
        measures.append(
            Measure(
                name: "queue: CPU, jobs of 1, beside taking alone", value: small.cpuMicroseconds, unit: "us/delivery",
                baseline: "bare consumer", baselineValue: bare.cpuMicroseconds))
        return measures
    }

    /// Fills the queue while the dispatchers stand still, then lets them go and waits for the last outcome.
    func dispatch(
        _ jobs: Int, of deliveriesPerJob: Int, app: String = "shop", by pids: [Int32], on broker: BrokerOptions,
        answerMilliseconds: Int = 0,
        sampleEvery: Int = 0
    ) async throws -> Sample {
        let load = try LoadOptions.parse([
            "--jobs", "\(jobs)", "--deliveries-per-job", "\(deliveriesPerJob)", "--answer-milliseconds", "\(answerMilliseconds)", "--app",
            app, "--sample-every", "\(sampleEvery)",
        ])
        for pid in pids { kill(pid, SIGSTOP) }
        defer { for pid in pids { kill(pid, SIGCONT) } }
        _ = try await withPublisher(broker) { publisher, topology in try await load.fill(publisher, topology) }
        let before = try pids.reduce(0) { try $0 + ProcessUsage.cpuSeconds(of: $1) }
        let begin = ContinuousClock.now
        for pid in pids { kill(pid, SIGCONT) }
        let counted = try await countOutcomes(load.deliveries, broker)
        let seconds = begin.duration(to: counted.last).seconds
        guard counted.accepted == load.deliveries else {
            throw ValidationError("only \(counted.accepted) of \(load.deliveries) deliveries were accepted")
        }
        let after = try pids.reduce(0) { try $0 + ProcessUsage.cpuSeconds(of: $1) }
        return Sample(count: load.deliveries, seconds: seconds, cpuSeconds: after - before)
    }

    /// A C program takes and acknowledges the same messages, and does nothing else.
    private func takeBare(_ messages: Int) async throws -> Sample {
        let broker = try broker.on("bare")
        let load = try LoadOptions.parse(["--jobs", "\(messages)", "--deliveries-per-job", "1"])
        _ = try await withPublisher(broker) { publisher, topology in try await load.fill(publisher, topology) }
        let line = try output(of: bareConsumer, [broker.amqp, broker.topology.jobQueue(.now), "\(messages)", "200"])
        return Sample(count: messages, seconds: try line.number("seconds"), cpuSeconds: try line.number("cpu_seconds"))
    }
}
