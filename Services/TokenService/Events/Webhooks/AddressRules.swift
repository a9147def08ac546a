/// The addresses that a webhook may lead to: those of the public internet alone, so that a webhook cannot make the service call what only
/// the service can reach (SSRF; RFC 6890 and the registries of special-purpose addresses, and the metadata servers of clouds).
package struct AddressRules: Equatable, Sendable {
    /// Whether this machine is allowed too, for development.
    package var allowsLoopback: Bool

    package init(allowsLoopback: Bool) { self.allowsLoopback = allowsLoopback }

    /// - Parameter address: Four bytes or sixteen.
    package func allows(_ address: [UInt8]) -> Bool {
        switch address.count {
        case 4: allowsLoopback && address[0] == 127 || !Self.reserved4.contains { $0.contains(address) }
        case 16:
            // Global unicast alone; that leaves out loopback, link-local, unique local, multicast, IPv4-mapped and NAT64.
            allowsLoopback && address == Self.loopback6
                || Self.globalUnicast.contains(address) && !Self.reserved6.contains { $0.contains(address) }
        default: false
        }
    }

    private struct Block {
        let prefix: [UInt8]
        let bits: Int

        init(_ bits: Int, _ prefix: UInt8...) {
            self.prefix = prefix
            self.bits = bits
        }

        func contains(_ address: [UInt8]) -> Bool {
            for index in 0..<(bits + 7) / 8 {
                let rest = bits - index * 8
                let mask: UInt8 = rest >= 8 ? 0xff : ~(0xff >> UInt8(rest))
                let byte = index < prefix.count ? prefix[index] : 0
                if (address[index] ^ byte) & mask != 0 { return false }
            }
            return true
        }
    }

    private static let loopback6: [UInt8] = [UInt8](repeating: 0, count: 15) + [1]
    private static let globalUnicast = Block(3, 0x20)

    private static let reserved4 = [
        Block(8, 0), Block(8, 10), Block(10, 100, 64), Block(8, 127), Block(16, 169, 254), Block(12, 172, 16), Block(24, 192, 0, 0),
        Block(24, 192, 0, 2), Block(24, 192, 88, 99), Block(16, 192, 168), Block(15, 198, 18), Block(24, 198, 51, 100),
        Block(24, 203, 0, 113), Block(4, 224), Block(4, 240),
        // Azure's wire server, which answers virtual machines alone.
        Block(32, 168, 63, 129, 16),
    ]
    private static let reserved6 = [
        // IETF protocol assignments with Teredo; documentation; 6to4, which holds an IPv4 address.
        Block(23, 0x20, 0x01, 0x00), Block(32, 0x20, 0x01, 0x0d, 0xb8), Block(16, 0x20, 0x02), Block(20, 0x3f, 0xff, 0x00),
    ]
}
