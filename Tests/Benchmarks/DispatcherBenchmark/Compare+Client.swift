import BenchmarkSupport
import Foundation
import PushModel
import StrictJSON

/// The APNs client alone, from memory, beside h2load: 4 connections, 110 bytes of payload, answers at once and after 20 ms.
extension DispatcherBenchmark.Compare {
    func measureClient(beside h2load: H2Load) throws -> [Measure] {
        var measures: [Measure] = []
        for milliseconds in [0, 20] {
            var (ours, bulk, theirs): ([Sample], [Sample], [Sample]) = ([], [], [])
            let load = H2Load.Load(requests: requests, connections: 4, payloadBytes: 110, answerMilliseconds: milliseconds)
            for round in 0...rounds {
                let samples = (
                    try h2load.run(load, at: "https://localhost:\(port)"), try client(load, port: port).sample,
                    try client(load, lane: .bulk, port: port).sample
                )
                progress(
                    "client, answers after \(milliseconds) ms, \(round == 0 ? "warm-up" : "round \(round)"): "
                        + "h2load \(samples.0.text), client \(samples.1.text), bulk \(samples.2.text)")
                guard round > 0 else { continue }
                theirs.append(samples.0)
                ours.append(samples.1)
                bulk.append(samples.2)
            }
            measures += Self.measures(after: milliseconds, ours: ours, bulk: bulk, theirs: theirs)
        }
        return measures
    }

    private static func measures(after milliseconds: Int, ours: [Sample], bulk: [Sample], theirs: [Sample]) -> [Measure] {
        [
            Measure(
                name: "client: rate, answers after \(milliseconds) ms", value: ours.rate, unit: "requests/s", baseline: "h2load",
                baselineValue: theirs.rate, bar: .ratioAtLeast(0.9)),
            Measure(
                name: "client: rate of bulk, answers after \(milliseconds) ms", value: bulk.rate, unit: "requests/s", baseline: "h2load",
                baselineValue: theirs.rate, bar: milliseconds == 0 ? nil : .ratioAtLeast(0.9)),
            Measure(
                name: "client: CPU, answers after \(milliseconds) ms", value: ours.cpuMicroseconds, unit: "us/request",
                baseline: "h2load", baselineValue: theirs.cpuMicroseconds, bar: milliseconds == 0 ? .ratioAtMost(1) : nil),
        ]
    }

    /// A process of its own, on the same processor as h2load.
    /// - Returns: what it measured, and how many requests it sent in all.
    func client(_ load: H2Load.Load, lane: Lane = .now, port: Int) throws -> (sample: Sample, sent: Int) {
        let line = try output(
            of: ProcessInfo.processInfo.arguments[0],
            [
                "client", "--port", "\(port)", "--key-file", keyFile, "--ca-file", caFile, "--connections", "\(load.connections)",
                "--requests", "\(load.requests)", "--answer-milliseconds", "\(load.answerMilliseconds)", "--payload-bytes",
                "\(load.payloadBytes)", "--lane", lane.rawValue,
            ])
        return (
            Sample(count: load.requests, seconds: try line.number("seconds"), cpuSeconds: try line.number("cpu_seconds")),
            Int(try line.number("sent"))
        )
    }

    /// Runs a program on the contenders' processor; its output is one JSON object.
    func output(of program: String, _ arguments: [String]) throws -> JSONValue {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/taskset")
        process.arguments = ["-c", "\(core)", program] + arguments
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return try JSONValue.parse(Array(text.split(separator: UInt8(ascii: "\n")).last ?? Data()))
    }
}

extension JSONValue {
    func number(_ name: String) throws -> Double {
        guard let number = self[name]?.numberValue else { throw MissingNumber(name: name) }
        return number
    }

    struct MissingNumber: Error { let name: String }
}

extension Sample {
    var text: String { "\(Int(rate))/s \(String(format: "%.2f", cpuMicroseconds)) us" }
}
