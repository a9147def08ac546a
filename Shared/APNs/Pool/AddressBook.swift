import SystemIO

/// Chooses which of a host's addresses to dial: APNs balances through DNS, so the client must spread (docs/apns.md, Connections).
struct AddressBook {
    let avoidance: Duration
    /// Connections open or being opened to each address.
    private var inUse: [SocketAddress: Int] = [:]
    private var avoidedUntil: [SocketAddress: ContinuousClock.Instant] = [:]

    /// - Parameter avoidance: how long an address that just failed comes last.
    init(avoidance: Duration) {
        self.avoidance = avoidance
    }

    /// The addresses in the order in which to try them: those that did not just fail, the least used first, ties by chance.
    /// One that failed is still better than none.
    mutating func order(
        _ addresses: [SocketAddress], now: ContinuousClock.Instant, using generator: inout some RandomNumberGenerator
    ) -> [SocketAddress] {
        avoidedUntil = avoidedUntil.filter { $0.value > now }
        return addresses.shuffled(using: &generator).map { ($0, avoidedUntil[$0] != nil, inUse[$0] ?? 0) }
            .enumerated().sorted { left, right in
                let (a, b) = (left.element, right.element)
                if a.1 != b.1 { return !a.1 }
                return a.2 == b.2 ? left.offset < right.offset : a.2 < b.2
            }
            .map(\.element.0)
    }

    /// Chooses the best, and counts it as in use at once, so that connections that are opened together go to different ones.
    mutating func open(oneOf addresses: [SocketAddress], now: ContinuousClock.Instant) -> SocketAddress? {
        var generator = SystemRandomNumberGenerator()
        guard let address = order(addresses, now: now, using: &generator).first else { return nil }
        inUse[address, default: 0] += 1
        return address
    }

    mutating func closed(_ address: SocketAddress) {
        guard let count = inUse[address] else { return }
        inUse[address] = count > 1 ? count - 1 : nil
    }

    mutating func failed(_ address: SocketAddress, now: ContinuousClock.Instant) {
        avoidedUntil[address] = now + avoidance
    }
}
