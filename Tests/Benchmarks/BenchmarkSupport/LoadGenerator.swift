package import SystemIO
import TestSupport

/// Sends prebuilt requests over a number of connections, one request in flight on each, from one thread.
package struct LoadGenerator: Sendable {
    package let address: SocketAddress
    package let connections: Int

    /// The result of a load.
    package struct Result: Sendable {
        package var count: Int
        package var seconds: Double
        /// Seconds, ascending.
        package var latencies: [Double]

        package var rate: Double { Double(count) / seconds }
        package func percentile(_ share: Double) -> Double {
            latencies.isEmpty ? 0 : latencies[min(latencies.count - 1, Int(Double(latencies.count) * share))]
        }
    }

    package init(address: SocketAddress, connections: Int) {
        self.address = address
        self.connections = connections
    }

    package init(host: String, port: Int, connections: Int) throws {
        guard let address = try SocketAddress.resolve(host: host, port: port).first else { throw BenchmarkError("no address for \(host)") }
        self.address = address
        self.connections = connections
    }

    /// - Parameter requests: Taken in their order; every answer must be 200, 201 or 202.
    package func run(_ requests: [HTTPRequest]) throws -> Result {
        let poller = try Poller(capacity: connections)
        var open: [PipelinedConnection] = []
        for key in 0..<connections {
            open.append(try PipelinedConnection(to: address, key: UInt64(key), poller, keepsBodies: false))
        }
        var sent = [ContinuousClock.Instant](repeating: .now, count: connections)
        var next = 0
        var latencies: [Double] = []
        latencies.reserveCapacity(requests.count)
        var buffer = [UInt8](repeating: 0, count: 65_536)
        func start(_ key: Int) throws {
            guard next < requests.count else { return }
            sent[key] = .now
            try open[key].send(requests[next].bytes)
            next += 1
        }
        let begin = ContinuousClock.now
        for key in open.indices { try start(key) }
        while latencies.count < requests.count {
            let events = try poller.wait(timeout: .seconds(30))
            guard !events.isEmpty else { throw BenchmarkError("no answer for 30 seconds") }
            for event in events {
                let key = Int(event.key)
                if event.isWritable { try open[key].resume() }
                guard event.isReadable else { continue }
                try open[key].receive(&buffer) { answer in
                    guard (200...202).contains(answer.status) else { throw BenchmarkError("the service answered \(answer.status)") }
                    latencies.append(sent[key].duration(to: .now) / .seconds(1))
                    try start(key)
                }
            }
        }
        let seconds = begin.duration(to: .now) / .seconds(1)
        latencies.sort()
        return Result(count: requests.count, seconds: seconds, latencies: latencies)
    }
}
