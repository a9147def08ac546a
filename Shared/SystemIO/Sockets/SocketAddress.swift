internal import CLinux
import Glibc

/// A host name gave no address: it has none, or the resolver failed (getaddrinfo(3)).
package struct ResolveError: Error, Equatable, CustomStringConvertible {
    package let host: String
    /// `EAI_…`
    package let code: Int32
    package let message: String

    package var description: String { "getaddrinfo \(host): \(message)" }
}

/// An IPv4 or IPv6 address with a port.
package struct SocketAddress: Hashable, Sendable, CustomStringConvertible {
    /// A `sockaddr_in` or `sockaddr_in6` as it lies in memory.
    private let bytes: [UInt8]

    init?(_ address: UnsafePointer<sockaddr>, length: socklen_t) {
        switch Int32(address.pointee.sa_family) {
        case AF_INET where Int(length) >= MemoryLayout<sockaddr_in>.size, AF_INET6 where Int(length) >= MemoryLayout<sockaddr_in6>.size:
            bytes = [UInt8](UnsafeRawBufferPointer(start: address, count: Int(length)))
        default: return nil
        }
    }

    /// Asks the system's resolver, which may block for seconds (resolv.conf(5)): call it from a thread that may wait.
    /// - Returns: at least one address, in the order in which to try them (RFC 6724).
    package static func resolve(host: String, port: Int) throws(ResolveError) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var first: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, String(port), &hints, &first)
        guard code == 0 else {
            let message = code == EAI_SYSTEM ? String(cString: strerror(errno)) : String(cString: gai_strerror(code))
            throw ResolveError(host: host, code: code, message: message)
        }
        defer { freeaddrinfo(first) }
        var addresses: [SocketAddress] = []
        var next = first
        while let entry = next {
            if let raw = entry.pointee.ai_addr, let address = SocketAddress(raw, length: entry.pointee.ai_addrlen) {
                addresses.append(address)
            }
            next = entry.pointee.ai_next
        }
        guard !addresses.isEmpty else { throw ResolveError(host: host, code: EAI_NONAME, message: "no IPv4 or IPv6 address") }
        return addresses
    }

    package var port: Int {
        // The port lies in the same place in both structures, most significant byte first.
        Int(bytes[2]) << 8 | Int(bytes[3])
    }

    /// The address alone, most significant byte first: four bytes of IPv4 or sixteen of IPv6.
    package var ip: [UInt8] {
        // sin_addr follows family and port; sin6_addr follows family, port and flow label.
        family == AF_INET6 ? Array(bytes[8..<24]) : Array(bytes[4..<8])
    }

    /// The address alone as text: `192.0.2.1` or `2001:db8::1`.
    package var host: String {
        let text = description
        return family == AF_INET6 ? String(text.dropFirst().prefix { $0 != "]" }) : String(text.prefix { $0 != ":" })
    }

    package var isIPv6: Bool { family == AF_INET6 }

    var family: Int32 {
        withSocketAddress { address, _ in Int32(address.pointee.sa_family) }
    }

    func withSocketAddress<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
        bytes.withUnsafeBytes { raw in
            // An array's storage is aligned to sixteen bytes, more than any sockaddr asks for.
            raw.withMemoryRebound(to: sockaddr.self) { pointers in
                guard let address = pointers.baseAddress else { preconditionFailure("an address is never empty") }
                return body(address, socklen_t(bytes.count))
            }
        }
    }

    /// `192.0.2.1:443` or `[2001:db8::1]:443`.
    package var description: String {
        let isIPv6 = family == AF_INET6
        let text = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { buffer -> String in
            bytes.withUnsafeBytes { raw in
                guard let base = raw.baseAddress, let out = buffer.baseAddress else { return "" }
                // sin_addr follows family and port; sin6_addr follows family, port and flow label.
                guard inet_ntop(family, base + (isIPv6 ? 8 : 4), out, socklen_t(buffer.count)) != nil else { return "" }
                return String(cString: out)
            }
        }
        return isIPv6 ? "[\(text)]:\(port)" : "\(text):\(port)"
    }
}
