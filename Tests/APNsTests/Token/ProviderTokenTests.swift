import OpenSSL
import StrictJSON
import TestSupport
import Testing

@testable import APNs

@Suite("Provider tokens")
struct ProviderTokenTests {
    static let wall: Int64 = 1_800_000_000_000
    let key: ES256PrivateKey
    let signer: ProviderTokenSigner

    init() throws {
        key = try ES256PrivateKey.generate()
        let credential = APNsCredential(name: "test", kind: .token(teamID: "TEAM000001", keyID: "KEY0000001", key: key))
        signer = try #require(ProviderTokenSigner(credential))
    }

    @Test("A provider token is signed and holds only the fields of Apple's table")
    func aTokenIsSignedAndSaysNoMoreThanApplesTable() throws {
        let text = String(decoding: try signer.authorization(issuedAt: 1_800_000_000), as: UTF8.self)
        #expect(text.hasPrefix("bearer "))
        let parts = text.dropFirst(7).split(separator: ".", omittingEmptySubsequences: false)
        try #require(parts.count == 3)
        let header = try JSONValue.parse(#require(Base64URL.decode(parts[0])))
        let claims = try JSONValue.parse(#require(Base64URL.decode(parts[1])))
        #expect(header.objectValue?.map(\.key) == ["alg", "kid"])
        #expect(header["alg"]?.stringValue == "ES256")
        #expect(header["kid"]?.stringValue == "KEY0000001")
        #expect(claims.objectValue?.map(\.key) == ["iss", "iat"])
        #expect(claims["iss"]?.stringValue == "TEAM000001")
        #expect(claims["iat"]?.integerValue == 1_800_000_000)
        let signature = try #require(Base64URL.decode(parts[2]))
        #expect(signature.count == 64)
        #expect(key.publicKey.isValid(signature: signature, for: Array("\(parts[0]).\(parts[1])".utf8)))
    }

    struct Renewal: CustomTestStringConvertible, Sendable {
        let testDescription: String
        /// For each request: the minutes that passed on the monotonic clock, and the minute on the wall clock.
        let steps: [(age: Int, wall: Int)]
        /// How many tokens the connection has shown by then.
        let tokens: Int

        init(_ name: String, _ steps: [(age: Int, wall: Int)], tokens: Int) {
            (testDescription, self.steps, self.tokens) = (name, steps, tokens)
        }
    }

    @Test(
        "A connection renews its token by the token's age",
        arguments: [
            Renewal("kept below fifty minutes", [(0, 0), (49, 49)], tokens: 1),
            Renewal("renewed at fifty", [(0, 0), (50, 50)], tokens: 2),
            Renewal("renewed again fifty later", [(0, 0), (50, 50), (99, 99), (100, 100)], tokens: 3),
            Renewal("renewed when the wall clock was set back", [(0, 0), (25, -35)], tokens: 2),
            Renewal("but not within twenty minutes of the last", [(0, 0), (19, -41)], tokens: 1),
            Renewal("and then at twenty", [(0, 0), (19, -41), (20, -40)], tokens: 2),
            Renewal("renewed when the wall clock was set ahead", [(0, 0), (25, 125)], tokens: 2),
            Renewal("not twice in twenty minutes however the clock jumps", [(0, 0), (20, -600), (30, 600), (39, -600)], tokens: 2),
        ])
    func tokensAreRenewedByTheirAge(_ renewal: Renewal) throws {
        var slot = ProviderTokenSlot(signer)
        // ECDSA signatures differ each time: an equal text is the same token.
        var shown: Set<[UInt8]> = []
        for step in renewal.steps {
            shown.insert(try slot.authorization(now: start + .seconds(step.age * 60), wall: Self.wall + Int64(step.wall) * 60_000))
        }
        #expect(shown.count == renewal.tokens)
    }

    @Test("Small corrections of the wall clock renew no token") func smallCorrections() throws {
        var slot = ProviderTokenSlot(signer)
        let token = try slot.authorization(now: start, wall: Self.wall)
        #expect(try slot.authorization(now: start + .seconds(1800), wall: Self.wall + 1_780_000) == token)
        #expect(try slot.authorization(now: start + .seconds(1800), wall: Self.wall + 1_769_000) != token)
    }

    @Test("A connection keeps its token byte for byte") func aConnectionKeepsItsOwnTokenByteForByte() throws {
        var slot = ProviderTokenSlot(signer)
        let first = try slot.authorization(now: start, wall: Self.wall)
        #expect(try slot.authorization(now: start + .seconds(600), wall: Self.wall + 600_000) == first)
        #expect(try slot.authorization(now: start + .seconds(3000), wall: Self.wall + 3_000_000) != first)
    }

    @Test("No sequence of clock jumps renews a token twice within twenty minutes")
    func noSequenceOfClockJumpsRenewsTwiceWithinTwentyMinutes() throws {
        var random = SeededGenerator(seed: 20)
        var slot = ProviderTokenSlot(signer)
        var now = start
        var lastRenewal: ContinuousClock.Instant?
        var shown: Set<[UInt8]> = []
        for _ in 0..<400 {
            now += .seconds(Int.random(in: 0...900, using: &random))
            let token = try slot.authorization(now: now, wall: Self.wall + Int64.random(in: -100_000_000...100_000_000, using: &random))
            guard shown.insert(token).inserted else { continue }
            if let lastRenewal { #expect(now - lastRenewal >= ProviderTokenSlot.minimumInterval) }
            lastRenewal = now
        }
        #expect(shown.count > 10)
    }

    @Test("A new connection begins with a young token or makes one, and the others change to it as soon as they may")
    func aNewConnectionBeginsWithAYoungTokenAndMintsWhereThereIsNone() throws {
        var first = ProviderTokenSlot(signer)
        var young = ProviderTokenSlot(signer)
        var late = ProviderTokenSlot(signer)
        func at(_ minutes: Int, _ slot: inout ProviderTokenSlot) throws -> [UInt8] {
            try slot.authorization(now: start + .seconds(minutes * 60), wall: Self.wall + Int64(minutes) * 60_000)
        }
        let token = try at(0, &first)
        #expect(try at(24, &young) == token)
        let other = try at(26, &late)
        #expect(other != token, "it would have to be renewed too soon")
        // Twenty minutes after it first showed the old one, each changes to the newest.
        #expect(try at(27, &first) == other)
        #expect(try at(43, &young) == token)
        #expect(try at(44, &young) == other)
        #expect(try at(50, &first) == other)
    }

    @Test("No connection begins with a token that APNs called expired") func noConnectionBeginsWithATokenThatWasCalledExpired() throws {
        var first = ProviderTokenSlot(signer)
        var next = ProviderTokenSlot(signer)
        let token = try first.authorization(now: start, wall: Self.wall)
        first.discard()
        let fresh = try next.authorization(now: start + .seconds(1), wall: Self.wall + 1000)
        #expect(fresh != token)
        // An expired token does not make its successor expired.
        first.discard()
        var third = ProviderTokenSlot(signer)
        #expect(try third.authorization(now: start + .seconds(2), wall: Self.wall + 2000) == fresh)
    }

    @Test("Connections that ask at the same time get one token") func whoeverAsksAtOnceGetsOneToken() async throws {
        let signer = signer
        let tokens = try await withThrowingTaskGroup(of: [UInt8].self) { group in
            for _ in 0..<16 {
                group.addTask {
                    var slot = ProviderTokenSlot(signer)
                    return try slot.authorization(now: start, wall: Self.wall)
                }
            }
            var tokens: Set<[UInt8]> = []
            for try await token in group { tokens.insert(token) }
            return tokens
        }
        #expect(tokens.count == 1)
    }

    @Test("No connection changes its token twice in twenty minutes, whatever the other connections do")
    func noConnectionChangesItsTokenTwiceInTwentyMinutesWhateverTheOthersDo() throws {
        var random = SeededGenerator(seed: 41)
        var slots = (0..<4).map { _ in ProviderTokenSlot(signer) }
        var changes: [[Int]] = Array(repeating: [], count: 4)
        var shown: [[UInt8]?] = Array(repeating: nil, count: 4)
        for minute in 0..<1000 {
            let index = Int.random(in: 0..<4, using: &random)
            let token = try slots[index].authorization(
                now: start + .seconds(minute * 60), wall: Self.wall + Int64(minute) * 60_000)
            if shown[index] != token { changes[index].append(minute) }
            shown[index] = token
            if minute.isMultiple(of: 97) {
                // A connection ends and another begins, which counts from zero.
                slots[index] = ProviderTokenSlot(signer)
                (shown[index], changes[index]) = (nil, [])
            }
            for minutes in changes { #expect(zip(minutes, minutes.dropFirst()).allSatisfy { $1 - $0 >= 20 }) }
        }
    }
}
