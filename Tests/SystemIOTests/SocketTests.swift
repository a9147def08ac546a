import SystemIO
import Testing

@Suite("TCP sockets over the loopback", .timeLimit(.minutes(5)))
struct SocketTests {
    /// Both ends of a connection through the kernel.
    private struct Pair {
        let near: TCPSocket
        let far: TCPSocket

        init() throws {
            let listener = try TCPListener(host: "127.0.0.1", port: 0)
            near = try TCPSocket.connect(to: listener.address, timeout: .seconds(5))
            far = try #require(try listener.acceptNext())
        }
    }

    @Test("Bytes arrive, and the reader learns of the end") func bytesAndEnd() throws {
        let pair = try Pair()
        var buffer = [UInt8](repeating: 0, count: 16)
        #expect(try pair.far.read(into: &buffer) == .wouldBlock)
        #expect(try pair.near.write([1, 2, 3].span) == .bytes(3))
        try pair.far.awaitReadable()
        #expect(try pair.far.read(into: &buffer) == .bytes(3))
        #expect(buffer.prefix(3) == [1, 2, 3] && buffer.count == 16)
        try pair.near.shutdownWriting()
        try pair.far.awaitReadable()
        #expect(try pair.far.read(into: &buffer) == .endOfStream)
        #expect(try pair.far.write([9].span) == .bytes(1), "the other direction goes on")
        try pair.near.awaitReadable()
        #expect(try pair.near.read(into: &buffer) == .bytes(1))
    }

    @Test("A full socket blocks no writer") func fullSocket() throws {
        let pair = try Pair()
        try pair.near.setSendBuffer(16_384)
        let block = [UInt8](repeating: 7, count: 65_536)
        var written = 0
        while case .bytes(let count) = try pair.near.write(block.span) { written += count }
        #expect(written > 0)
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var read = 0
        while read < written {
            try pair.far.awaitReadable()
            if case .bytes(let count) = try pair.far.read(into: &buffer) { read += count }
        }
        let poller = try Poller()
        try poller.add(pair.near.descriptor, key: 1, interest: .write)
        #expect(try poller.wait(timeout: .seconds(10)).first?.isWritable == true)
    }

    @Test("A reset is an error and never a signal") func resetError() throws {
        let pair = try Pair()
        try pair.far.resetOnClose()
        pair.far.close()
        try pair.near.awaitReadable()
        var buffer = [UInt8](repeating: 0, count: 1)
        let error = #expect(throws: SystemError.self) { try pair.near.read(into: &buffer) }
        #expect(error?.operation == "recv")
        // Without protection the second write to a dead connection would raise SIGPIPE and end the process.
        for _ in 0..<2 { #expect(throws: SystemError.self) { try pair.near.write([1].span) } }
    }

    @Test("A connect to a port without a listener is refused") func closedPort() throws {
        // The port of tcpmux, which is out of use. A port that was just closed may belong to another test by now.
        let address = try #require(SocketAddress.resolve(host: "127.0.0.1", port: 1).first)
        let error = #expect(throws: SystemError.self) { try TCPSocket.connect(to: address, timeout: .seconds(5)) }
        #expect(error?.isConnectionRefused == true && error?.operation == "connect")
        #expect(error?.description == "connect: Connection refused (errno 111)")
    }

    @Test("An unanswered connect times out") func connectTimeout() throws {
        // If the queue of a listener is full, the kernel drops a SYN and does not answer (listen(2)).
        let listener = try TCPListener(host: "127.0.0.1", port: 0, backlog: 0)
        var queued: [TCPSocket] = []
        var failure: SystemError?
        for _ in 0..<16 where failure == nil {
            do throws(SystemError) {
                queued.append(try TCPSocket.connect(to: listener.address, timeout: .milliseconds(100)))
            } catch {
                failure = error
            }
        }
        #expect(failure?.isTimeout == true && failure?.operation == "connect")
    }

    @Test("A closed socket refuses every call") func closedSocket() throws {
        let pair = try Pair()
        pair.near.close()
        pair.near.close()
        #expect(pair.near.descriptor == -1)
        var buffer = [UInt8](repeating: 0, count: 1)
        #expect(throws: SystemError.self) { try pair.near.read(into: &buffer) }
        #expect(throws: SystemError.self) { try pair.near.write([1].span) }
        try pair.far.awaitReadable()
        #expect(try pair.far.read(into: &buffer) == .endOfStream)
    }

    @Test("A listener reports its address and the address of its client") func addresses() throws {
        let listener = try TCPListener(host: "127.0.0.1", port: 0)
        #expect(listener.port > 0 && listener.address.description == "127.0.0.1:\(listener.port)")
        #expect(try listener.accept() == nil)
        let near = try TCPSocket.connect(to: listener.address, timeout: .seconds(5))
        let far = try #require(try listener.acceptNext())
        #expect(far.remoteAddress == near.localAddress && far.localAddress == near.remoteAddress)
        try near.setUserTimeout(.seconds(15))
        #expect(throws: SystemError.self) { try TCPListener(host: "127.0.0.1", port: listener.port) }
    }

    @Test("Several listeners may share a port") func sharedPort() throws {
        let first = try TCPListener(host: "127.0.0.1", port: 0, sharesPort: true)
        let second = try TCPListener(host: "127.0.0.1", port: first.port, sharesPort: true)
        #expect(first.port == second.port)
    }

    @Test("Names and literal addresses resolve") func resolving() throws {
        #expect(try SocketAddress.resolve(host: "127.0.0.1", port: 443).map(\.description) == ["127.0.0.1:443"])
        #expect(try SocketAddress.resolve(host: "::1", port: 65_535).map(\.description) == ["[::1]:65535"])
        #expect(try SocketAddress.resolve(host: "localhost", port: 1).allSatisfy { $0.port == 1 })
        let first = try SocketAddress.resolve(host: "192.0.2.1", port: 80)
        #expect(try first == SocketAddress.resolve(host: "192.0.2.1", port: 80))
        #expect(try first != SocketAddress.resolve(host: "192.0.2.1", port: 81))
        let error = #expect(throws: ResolveError.self) { try SocketAddress.resolve(host: "no such name", port: 1) }
        #expect(error?.description.hasPrefix("getaddrinfo no such name: ") == true)
    }
}

extension TCPSocket {
    func awaitReadable() throws {
        let poller = try Poller()
        try poller.add(descriptor, key: 0, interest: .read)
        #expect(try poller.wait(timeout: .seconds(30)).count == 1)
    }
}

extension TCPListener {
    func acceptNext() throws -> TCPSocket? {
        let poller = try Poller()
        try poller.add(descriptor, key: 0, interest: .read)
        _ = try poller.wait(timeout: .seconds(30))
        return try accept()
    }
}
