import HTTP2

@testable import APNsSimulator

/// The headers and body of one request, through every check except the signature of the provider token.
enum FuzzRequest {
    private static let now: Int64 = 1_800_000_000_000

    /// Lines of `name: value`, an empty line, the body.
    static func read(_ bytes: [UInt8]) -> (headers: HeaderList, body: [UInt8]) {
        var headers = HeaderList()
        var rest = bytes[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            let line = rest[..<end]
            rest = rest[(end + 1)...]
            guard let colon = line.dropFirst().firstIndex(of: UInt8(ascii: ":")) else { break }
            headers.append(Array(line[..<colon]), Array(line[line.index(after: colon)...].drop { $0 == UInt8(ascii: " ") }))
        }
        return (headers, Array(rest))
    }

    static func run(_ bytes: [UInt8]) {
        let (headers, body) = read(bytes)
        var check = RequestCheck(authority: ConnectionAuthority(environment: .production, keyRing: FuzzProviderToken.keyRing))
        // Twice, because a comparison with the last request takes another path the second time.
        for _ in 0..<2 {
            var facts = PushFacts()
            let refusal = check.check(headers, body: body, now: now, facts: &facts)
            let world = World(unknownDevices: .reject, journalCapacity: 2, clock: { now })
            if let token = facts.token {
                precondition(TokenKey(hex: token.hex) == token, "a token that was read is written as it was")
                world.put(TokenRecord.Installation(environment: .production, state: .installed), for: token, now: now)
            }
            let id = facts.id ?? MessageID(high: 1, low: 2)
            precondition(MessageID(id.text.span) == id, "an id that was read is written as it was")
            _ = world.settle(
                facts, id: id, refusal: refusal, from: RequestOrigin(environment: .production, connection: 1, stream: 1), now: now)
            _ = facts.token.map { world.inbox(of: $0, now: now) }
        }
    }
}
