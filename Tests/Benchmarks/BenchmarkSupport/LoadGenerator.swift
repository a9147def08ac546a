package import SystemIO

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

    private struct Connection {
        let socket: TCPSocket
        var reader = HTTPResponseReader(keepsBody: false)
        var request = -1
        var written = 0
        var began = ContinuousClock.now
        var waitsToWrite = false
    }

    /// - Parameter requests: Taken in their order; every answer must be 200, 201 or 202.
    package func run(_ requests: [HTTPRequest]) throws -> Result {
        let poller = try Poller(capacity: connections)
        var open: [Connection] = []
        for key in 0..<connections {
            let connection = Connection(socket: try TCPSocket.connect(to: address, timeout: .seconds(10)))
            try poller.add(connection.socket.descriptor, key: UInt64(key), interest: .read)
            open.append(connection)
        }
        var next = 0
        var latencies: [Double] = []
        latencies.reserveCapacity(requests.count)
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let begin = ContinuousClock.now
        for key in open.indices { try start(&open[key], key, requests, &next, poller) }
        while latencies.count < requests.count {
            let events = try poller.wait(timeout: .seconds(30))
            guard !events.isEmpty else { throw BenchmarkError("no answer for 30 seconds") }
            for event in events {
                let key = Int(event.key)
                if event.isWritable { try write(&open[key], key, requests, poller) }
                guard event.isReadable, try read(&open[key], &buffer) else { continue }
                latencies.append(open[key].began.duration(to: .now) / .seconds(1))
                try start(&open[key], key, requests, &next, poller)
            }
        }
        let seconds = begin.duration(to: .now) / .seconds(1)
        for connection in open { connection.socket.close() }
        latencies.sort()
        return Result(count: requests.count, seconds: seconds, latencies: latencies)
    }

    private func start(_ connection: inout Connection, _ key: Int, _ requests: [HTTPRequest], _ next: inout Int, _ poller: Poller) throws {
        guard next < requests.count else { return }
        connection.request = next
        next += 1
        connection.written = 0
        connection.began = .now
        try write(&connection, key, requests, poller)
    }

    private func write(_ connection: inout Connection, _ key: Int, _ requests: [HTTPRequest], _ poller: Poller) throws {
        let bytes = requests[connection.request].bytes
        while connection.written < bytes.count {
            switch try connection.socket.write(bytes.span.extracting(connection.written..<bytes.count)) {
            case .bytes(let count): connection.written += count
            case .wouldBlock:
                if !connection.waitsToWrite {
                    try poller.modify(connection.socket.descriptor, key: UInt64(key), interest: [.read, .write])
                }
                connection.waitsToWrite = true
                return
            case .endOfStream: throw BenchmarkError("the service closed a connection")
            }
        }
        if connection.waitsToWrite { try poller.modify(connection.socket.descriptor, key: UInt64(key), interest: .read) }
        connection.waitsToWrite = false
    }

    /// - Returns: whether the answer is complete.
    private func read(_ connection: inout Connection, _ buffer: inout [UInt8]) throws -> Bool {
        switch try connection.socket.read(into: &buffer) {
        case .bytes(let count):
            guard try connection.reader.receive(buffer[..<count]) else { return false }
            guard (200...202).contains(connection.reader.status) else {
                throw BenchmarkError("the service answered \(connection.reader.status)")
            }
            return true
        case .wouldBlock: return false
        case .endOfStream: throw BenchmarkError("the service closed a connection")
        }
    }
}
