import Synchronization
import SystemIO

/// A tap between a client and the simulator that passes everything on and counts the client's bytes. TLS shows the length of every record.
final class WireTap: Sendable {
    private let listener: TCPListener
    private let target: SocketAddress
    private let stopped: WakeUp
    private let heard = Mutex(0)

    var port: Int { listener.port }
    /// Bytes inside the client's TLS 1.3 records since the last call, handshake excluded.
    func takePlaintext() -> Int {
        heard.withLock { bytes in
            defer { bytes = 0 }
            return bytes
        }
    }

    init(to port: Int) throws {
        target = try SocketAddress.resolve(host: "127.0.0.1", port: port)[0]
        listener = try TCPListener(host: "127.0.0.1", port: 0)
        stopped = try WakeUp()
        try SystemThread.start(name: "tap") { [self] in report { try listen() } }
    }

    func stop() { stopped.signal() }

    private func listen() throws {
        let poller = try Poller(capacity: 2)
        try poller.add(stopped.descriptor, key: 0, interest: .read)
        try poller.add(listener.descriptor, key: 1, interest: .read)
        while try poller.wait(timeout: nil).allSatisfy({ $0.key != 0 }) {
            while let client = try listener.accept() {
                let server = try TCPSocket.connect(to: target, timeout: .seconds(3))
                try SystemThread.start(name: "tap-link") { [self] in report { try relay(client, server) } }
            }
        }
        listener.close()
    }

    /// Runs until one side ends.
    private func relay(_ client: TCPSocket, _ server: TCPSocket) throws {
        defer {
            client.close()
            server.close()
        }
        let poller = try Poller(capacity: 2)
        try poller.add(client.descriptor, key: 0, interest: .read)
        try poller.add(server.descriptor, key: 1, interest: .read)
        var records = TLSRecords()
        while true {
            for event in try poller.wait(timeout: nil) {
                let isUp = event.key == 0
                let isOpen = try pass(from: isUp ? client : server, to: isUp ? server : client) { bytes in
                    guard isUp else { return }
                    let plaintext = records.add(bytes)
                    heard.withLock { $0 += plaintext }
                }
                if !isOpen { return }
            }
        }
    }

    private func pass(from source: TCPSocket, to target: TCPSocket, _ note: (ArraySlice<UInt8>) -> Void) throws -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            switch try source.read(into: &buffer) {
            case .bytes(let count):
                note(buffer[..<count])
                try write(buffer, count, to: target)
            case .wouldBlock: return true
            case .endOfStream: return false
            }
        }
    }

    private func write(_ buffer: [UInt8], _ count: Int, to target: TCPSocket) throws {
        var written = 0
        while written < count {
            if case .bytes(let more) = try target.write(buffer.span.extracting(written..<count)) {
                written += more
            } else {
                let poller = try Poller(capacity: 1)
                try poller.add(target.descriptor, key: 0, interest: .write)
                _ = try poller.wait(timeout: .seconds(10))
            }
        }
    }

    /// Ignores a connection that ends while bytes are in flight.
    private func report(_ body: () throws -> Void) {
        do { try body() } catch { print("tap: \(error)") }
    }
}

/// Follows the records of one direction of a TLS 1.3 connection (RFC 8446 section 5).
struct TLSRecords {
    private var head: [UInt8] = []
    private var rest = 0
    private var isFirst = true

    /// - Returns: bytes of application data in the records that begin here: what is left without the content type and the tag of each.
    mutating func add(_ bytes: ArraySlice<UInt8>) -> Int {
        var bytes = bytes
        var plaintext = 0
        while !bytes.isEmpty {
            if rest > 0 {
                let count = min(rest, bytes.count)
                bytes = bytes.dropFirst(count)
                rest -= count
                continue
            }
            head.append(bytes.removeFirst())
            guard head.count == 5 else { continue }
            rest = Int(head[3]) << 8 | Int(head[4])
            if head[0] == 23 {
                // The first encrypted record of a client is its Finished.
                if !isFirst { plaintext += rest - 17 }
                isFirst = false
            }
            head.removeAll(keepingCapacity: true)
        }
        return plaintext
    }
}
