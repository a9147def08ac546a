import Glibc

/// A blocking TCP socket on 127.0.0.1 for the fault proxy.
struct Socket {
    let descriptor: Int32

    struct Failure: Error { let operation: String }

    /// - Parameter port: 0 lets the kernel choose.
    static func listen(port: UInt16 = 0) throws -> (socket: Socket, port: UInt16) {
        let socket = try make()
        var address = loopback(port)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(socket.descriptor, address, length) == 0 && Glibc.listen(socket.descriptor, 64) == 0
                    && getsockname(socket.descriptor, address, &length) == 0
            }
        }
        guard bound else { throw Failure(operation: "listen") }
        return (socket, UInt16(bigEndian: address.sin_port))
    }

    static func connect(port: UInt16) throws -> Socket {
        let socket = try make()
        var address = loopback(port)
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(socket.descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard connected else { throw Failure(operation: "connect") }
        return socket
    }

    /// Returns nil after the listener was shut down.
    func accept() -> Socket? {
        let accepted = Glibc.accept(descriptor, nil, nil)
        return accepted >= 0 ? Socket(descriptor: accepted) : nil
    }

    /// Returns no bytes at the end of the stream.
    func read() -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 65536)
        let count = Glibc.read(descriptor, &buffer, buffer.count)
        return Array(buffer.prefix(max(0, count)))
    }

    func write(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    /// Ends both directions and wakes threads that read or accept.
    func shutDown() { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }
    func close() { _ = Glibc.close(descriptor) }

    private static func make() throws -> Socket {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw Failure(operation: "socket") }
        return Socket(descriptor: descriptor)
    }

    private static func loopback(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return address
    }
}
