import APNs
import ArgumentParser
import BenchmarkSupport
import Broker
import Configuration
import Dispatcher
import Foundation
import Logging
import Observability
import PushModel
import Synchronization
import SystemIO

extension DispatcherBenchmark {
    /// As many fences as a dispatcher may have to remember: the check of a request while old ones are forgotten, memory, and the start.
    struct Fences: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Measure a dispatcher that remembers millions of fences.",
            discussion: "Needs a broker and a credentials file. Prints a table, and as the last line one JSON object.")
        @OptionGroup var broker: BrokerOptions
        @Option(help: "How many fences.") var fences = 3_000_000
        @Option(help: "Seconds for which requests are checked, without forgetting and then with it.") var seconds = 20.0
        @Option(help: "The dispatcher's credentials file; nothing is sent.") var credentialsFile: String
        @Option(help: "Also write the JSON object to this file.") var json: String?

        private static let hours: Int64 = 73
        private static let app = "shop"

        func validate() throws {
            guard fences >= 1000, seconds > 0 else { throw ValidationError("--fences from 1000, --seconds above 0") }
        }

        func run() async throws {
            var report = BenchmarkReport("fences")
            await report.add("checks") { try checks() }
            await report.add("start") { [try await start()] }
            try report.publish(json: json)
        }

        // MARK: The check

        private func checks() throws -> [Measure] {
            let before = try resident()
            let gate = ControlGate()
            gate.open()
            let now = WallClock.milliseconds()
            for number in 0..<fences {
                gate.apply { $0.fence(app: 0, installation: Self.installation(number), epochsBelow: 2, at: moment(of: number, now)) }
            }
            let memory = try resident() - before
            progress("fences: \(gate.count) in memory, \(Int(memory)) MiB")
            let quiet = try latencies(of: gate) { _ in }
            // Time passes so quickly that the fences expire meanwhile. A tick comes ten times a second, as in the dispatcher.
            let rounds = Int(seconds * 10)
            let busy = try latencies(of: gate) { round in
                gate.apply { $0.forget(before: now - Self.hours * 3_600_000 * Int64(rounds - round) / Int64(rounds)) }
            }
            progress("fences: \(gate.count) left after \(rounds) ticks")
            return [
                Measure(
                    name: "check of a request while forgetting, p99", value: busy.p99, unit: "us", baseline: "not forgetting",
                    baselineValue: quiet.p99, bar: .valueAtMost(10)),
                Measure(
                    name: "check of a request while forgetting, longest", value: busy.longest, unit: "us", baseline: "not forgetting",
                    baselineValue: quiet.longest),
                Measure(name: "memory of \(fences) fences", value: memory, unit: "MiB", bar: .valueAtMost(256)),
            ]
        }

        /// Evenly over the hours for which fences are remembered, oldest first.
        private func moment(of number: Int, _ now: Int64) -> Int64 {
            now - Self.hours * 3_600_000 * Int64(fences - number) / Int64(fences)
        }

        private static func installation(_ number: Int) -> PushID { PushID(high: 0xfe, low: UInt64(number)) }

        private func resident() throws -> Double {
            let text = try String(contentsOf: URL(filePath: "/proc/self/statm"), encoding: .utf8)
            guard let pages = text.split(separator: " ").dropFirst().first.flatMap({ Double($0) }) else {
                throw ValidationError("no resident size in /proc/self/statm")
            }
            return pages * 4 / 1024
        }

        /// Microseconds. One thread checks, as a connection's does; this one calls `tick` ten times a second, as the core's does.
        private func latencies(of gate: ControlGate, _ tick: (Int) -> Void) throws -> (p99: Double, longest: Double) {
            let batch = try Self.batch(fences)
            let isOver = Atomic(false)
            let times = Mutex<[UInt32]>([])
            let checker = try SystemThread.start(name: "check") {
                var taken: [UInt32] = []
                taken.reserveCapacity(1 << 22)
                var next = 0
                while !isOver.load(ordering: .acquiring), taken.count < 1 << 26 {
                    let begin = ContinuousClock.now
                    _ = gate.stopReason(for: batch.requests[next], of: batch)
                    taken.append(UInt32(clamping: Int64((ContinuousClock.now - begin) / .nanoseconds(1))))
                    next = (next + 1) % batch.requests.count
                }
                times.withLock { $0 = taken }
            }
            for round in 0..<Int(seconds * 10) {
                tick(round)
                usleep(100_000)
            }
            isOver.store(true, ordering: .releasing)
            checker.join()
            let sorted = times.withLock { $0.sorted() }
            guard let longest = sorted.last else { throw ValidationError("nothing was checked") }
            progress("fences: \(sorted.count) checks")
            return (Double(sorted[sorted.count * 99 / 100]) / 1000, Double(longest) / 1000)
        }

        /// Half of its requests are for fenced installations.
        private static func batch(_ fences: Int) throws -> APNsBatch {
            guard let token = DeviceToken(bytes: BenchTokens.bytes(0, answerMilliseconds: 0)) else {
                throw ValidationError("thirty-two bytes are a token")
            }
            let requests = (0..<100_000).map { index in
                APNsRequest(
                    id: PushID(high: 1, low: UInt64(index)), token: token,
                    installation: installation(index % 2 == 0 ? index * (fences / 100_000) : fences + index), ownerEpoch: 1, index: index)
            }
            return APNsBatch(
                tag: 1 << 16, lane: .now, pushType: .alert, topic: "com.example.shop", priority: 10, expiresAt: .max, payload: [],
                requests: requests)
        }

        // MARK: The start

        /// From a dispatcher's start to the outcome of the first job. The last fence covers this job, so the dispatcher has read all fences
        /// and sends nothing.
        private func start() async throws -> Measure {
            let (broker, count) = (broker, fences)
            let now = WallClock.milliseconds()
            let filled = try await withPublisher(broker) { publisher, topology in
                try await ContinuousClock().measure {
                    for first in stride(from: 0, to: count, by: 5000) {
                        let messages = try (first..<min(first + 5000, count)).map { try Self.fence($0, moment(of: $0, now), topology) }
                        guard await publisher.publish(messages, deadline: .seconds(120)).allSatisfy(\.isConfirmed) else {
                            throw ValidationError("the broker did not confirm the fences")
                        }
                    }
                    guard await publisher.publish([try job(count - 1, topology)], deadline: .seconds(30)).allSatisfy(\.isConfirmed) else {
                        throw ValidationError("the broker did not confirm the job")
                    }
                }
            }
            progress("fences: published in \(Int(filled.seconds)) s")
            let dispatcher = try dispatcher()
            let begin = ContinuousClock.now
            let counted = try await withThrowingTaskGroup(of: OutcomeCount?.self) { group in
                group.addTask {
                    try await dispatcher.run()
                    return nil
                }
                group.addTask { try await countOutcomes(1, broker) }
                defer { group.cancelAll() }
                while let result = try await group.next() { if let result { return result } }
                throw ValidationError("the dispatcher ended before the first outcome")
            }
            return Measure(
                name: "start to first job with \(fences) fences in the stream", value: begin.duration(to: counted.last).seconds, unit: "s",
                bar: .valueAtMost(120))
        }

        private static func fence(_ number: Int, _ moment: Int64, _ topology: Topology) throws -> OutgoingMessage {
            guard let app = AppSlug(app) else { throw ValidationError("shop is a name") }
            let message = ControlMessage.fence(app: app, installation: installation(number), epochsBelow: 2, at: moment)
            return OutgoingMessage(
                exchange: "", routingKey: topology.controlStream, messageID: .random(), contentType: ControlMessage.contentType,
                body: message.encoded())
        }

        private func job(_ number: Int, _ topology: Topology) throws -> OutgoingMessage {
            guard let app = AppSlug(Self.app), let token = DeviceToken(bytes: BenchTokens.bytes(0, answerMilliseconds: 0)) else {
                throw ValidationError("shop is a name, and thirty-two bytes are a token")
            }
            let now = WallClock.milliseconds()
            let job = PushJob(
                notification: .random(), app: app, lane: .now, pushType: .alert, topic: "com.example.shop", priority: 10,
                expiresAt: now + 86_400_000, acceptedAt: now, onUnknown: .drop, payload: Array("{}".utf8),
                deliveries: [
                    PushJob.Delivery(
                        id: .random(), token: token, environment: .production, installation: Self.installation(number), ownerEpoch: 1)
                ])
            return OutgoingMessage(
                exchange: topology.jobsExchange, routingKey: topology.jobRoutingKey(.now), messageID: .random(),
                contentType: PushJob.contentType, body: job.encoded())
        }

        /// A dispatcher in this process. Its APNs is a port without a listener.
        private func dispatcher() throws -> Dispatcher {
            let config = ConfigReader(
                provider: EnvironmentVariablesProvider(environmentVariables: [
                    "OPERATIONS_PORT": "0", "RABBITMQ_URL": broker.amqp, "BROKER_PREFIX": broker.prefix,
                    "APNS_CREDENTIALS_FILE": credentialsFile, "APNS_PRODUCTION_URL": "https://127.0.0.1:9",
                    "APNS_SANDBOX_URL": "https://127.0.0.1:9",
                ]))
            var logger = Logger(label: "dispatcher")
            logger.logLevel = .error
            return try Dispatcher(DispatcherSettings(config, logger: logger), metrics: PrometheusMetrics(), logger: logger)
        }
    }
}
