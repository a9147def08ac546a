package import NIOCore
import NIOPosix

/// A TCP connection to a service, for clients that break HTTP.
package struct RawConnection {
    private var inbound: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator
    /// The socket, so that another task can send.
    package let outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>
    package private(set) var received = ""

    /// - Parameter receiveBuffer: Bytes that the system takes before the test reads them; as the system decides if nil. Linux lets it grow
    ///   to dozens of megabytes.
    package static func open<Result: Sendable>(
        _ port: Int, receiveBuffer: Int? = nil, _ body: @Sendable (inout RawConnection) async throws -> Result
    ) async throws -> Result {
        var bootstrap = ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup).channelOption(.allowRemoteHalfClosure, value: true)
        if let receiveBuffer { bootstrap = bootstrap.channelOption(.socketOption(.so_rcvbuf), value: receiveBuffer) }
        let channel = try await bootstrap.connect(host: "127.0.0.1", port: port) { channel in
            channel.eventLoop.makeCompletedFuture {
                try NIOAsyncChannel(
                    wrappingChannelSynchronously: channel,
                    configuration: .init(isOutboundHalfClosureEnabled: true, inboundType: ByteBuffer.self, outboundType: ByteBuffer.self))
            }
        }
        return try await channel.executeThenClose { inbound, outbound in
            var connection = RawConnection(inbound: inbound.makeAsyncIterator(), outbound: outbound)
            return try await body(&connection)
        }
    }

    /// - Returns: false where the service has closed the connection.
    @discardableResult
    package func send(_ text: String) async -> Bool { await send(Array(text.utf8)) }

    @discardableResult
    package func send(_ bytes: [UInt8]) async -> Bool { await outbound.send(bytes) }

    /// The statuses of the answers that came, in order.
    package var statuses: [Int] {
        received.split(separator: "HTTP/1.1 ", omittingEmptySubsequences: false).dropFirst().compactMap { Int($0.prefix(3)) }
    }

    /// Reads until the text was received, or the connection ends.
    package mutating func read(until text: String) async -> String {
        while !received.contains(text), await readMore() {}
        return received
    }

    /// All bytes until the service closes the connection.
    package mutating func readToEnd() async -> String {
        while await readMore() {}
        return received
    }

    package mutating func forget() { received = "" }

    private mutating func readMore() async -> Bool {
        do {
            guard let bytes = try await inbound.next(isolation: nil) else { return false }
            received += String(buffer: bytes)
            return true
        } catch {
            return false
        }
    }
}

extension NIOAsyncChannelOutboundWriter<ByteBuffer> {
    /// - Returns: false where the service has closed the connection.
    @discardableResult
    package func send(_ bytes: some Sequence<UInt8> & Sendable) async -> Bool {
        do { try await write(ByteBuffer(bytes: bytes)) } catch { return false }
        return true
    }
}
