import SystemIO
import TestSupport
import Testing

@testable import APNs

@Suite("Back-off")
struct ReconnectBackoffTests {
    @Test("The bound doubles up to the cap, and jitter covers the whole range") func doubling() {
        var backoff = ReconnectBackoff(base: .seconds(1), cap: .seconds(60))
        let bounds = (0..<9).map { _ in backoff.next(random: 1) }
        #expect(bounds == [1, 2, 4, 8, 16, 32, 60, 60, 60].map { .seconds($0) })
        #expect(backoff.next(random: 0) == .zero)
        backoff.reset()
        #expect(backoff.next(random: 0.5) == .milliseconds(500))
    }

    @Test("Many failures cause no overflow") func overflow() {
        #expect(ReconnectBackoff.bound(.seconds(1), .seconds(60), 10_000) == .seconds(60))
    }
}

@Suite("Which address to dial")
struct AddressBookTests {
    let addresses: [SocketAddress]

    init() throws {
        addresses = try (1...4).map { try SocketAddress.resolve(host: "127.0.0.\($0)", port: 443)[0] }
    }

    @Test("Connections spread over the addresses") func connectionsSpreadOverAddresses() {
        var random = SeededGenerator(seed: 1)
        var book = AddressBook(avoidance: .seconds(60))
        var used: [SocketAddress] = []
        for _ in 0..<4 {
            if let chosen = book.open(oneOf: addresses, now: start) { used.append(chosen) }
        }
        #expect(Set(used) == Set(addresses))
        book.closed(used[2])
        #expect(book.order(addresses, now: start, using: &random)[0] == used[2])
    }

    @Test("An address that just failed comes last for a while") func anAddressThatJustFailedComesLastForAWhile() {
        var random = SeededGenerator(seed: 2)
        var book = AddressBook(avoidance: .seconds(60))
        book.failed(addresses[1], now: start)
        for _ in 0..<50 { #expect(book.order(addresses, now: start + .seconds(59), using: &random).last == addresses[1]) }
        let later = (0..<50).map { _ in book.order(addresses, now: start + .seconds(60), using: &random)[0] }
        #expect(later.contains(addresses[1]))
    }

    @Test("A pool dials a failed address if it has no other") func anAddressThatFailedIsBetterThanNone() {
        var random = SeededGenerator(seed: 3)
        var book = AddressBook(avoidance: .seconds(60))
        book.failed(addresses[0], now: start)
        #expect(book.order([addresses[0]], now: start, using: &random) == [addresses[0]])
    }

    @Test("The order of equal addresses is random") func equalAddressesAreShuffled() {
        var random = SeededGenerator(seed: 4)
        var book = AddressBook(avoidance: .seconds(60))
        let firsts = Set((0..<100).map { _ in book.order(addresses, now: start, using: &random)[0] })
        #expect(firsts.count == 4)
    }
}
