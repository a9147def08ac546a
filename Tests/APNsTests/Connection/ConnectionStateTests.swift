import Testing

@testable import APNs

@Suite("What a connection decides")
struct ConnectionStateTests {
    static let rules = ConnectionState.Rules(
        maximumStreams: 1000, pingAfter: .seconds(30), pingTimeout: .seconds(10), settingsTimeout: .seconds(5),
        maximumAge: .seconds(86_400),
        maximumRequests: 1 << 29)

    private func open(limit: Int = 1000, proven: Bool = true, _ rules: ConnectionState.Rules = rules) -> ConnectionState {
        var state = ConnectionState(rules, now: start)
        _ = state.settings(maximumStreams: limit)
        if proven {
            state.requestSubmitted()
            _ = state.accepted()
            _ = state.streamEnded()
        }
        return state
    }

    @Test("A connection sends nothing before SETTINGS and one request before the first answer") func firstRequest() {
        var state = ConnectionState(Self.rules, now: start)
        #expect(state.freeStreams == 0)
        #expect(state.settings(maximumStreams: 1000) == .becameUsable)
        #expect(state.freeStreams == 1)
        #expect(state.reservedForNow == 0, "the first request may be of any lane")
        state.requestSubmitted()
        #expect(state.freeStreams == 0)
        #expect(state.accepted() == .becameProven)
        #expect(state.reservedForNow == 62)
        #expect(state.streamEnded() == nil)
        #expect(state.freeStreams == 1000)
        #expect(state.settings(maximumStreams: 500) == nil)
    }

    @Test(
        "Only an answer to an authenticated request opens all streams",
        arguments: [
            (200, String?.none, true), (400, "BadDeviceToken", true), (410, "Unregistered", true), (429, "TooManyRequests", true),
            (413, nil, true), (403, "Forbidden", false), (403, "SomethingNew", false), (403, nil, false),
        ])
    func authenticatedAnswer(status: Int, reason: String?, opens: Bool) {
        var state = open(proven: false)
        state.requestSubmitted()
        let actions = status == 200 ? [state.accepted()].compactMap(\.self) : state.answered(status: status, reason: reason)
        _ = state.streamEnded()
        #expect(actions == (opens ? [.becameProven] : []))
        #expect(state.freeStreams == (opens ? 1000 : 1))
    }

    @Test("A connection obeys every new stream limit at once, up and down") func changedLimit() {
        var state = open()
        for _ in 0..<600 { state.requestSubmitted() }
        #expect(state.freeStreams == 400)
        _ = state.settings(maximumStreams: 1)
        #expect(state.freeStreams == 0)
        for _ in 0..<600 { _ = state.accepted(); _ = state.streamEnded() }
        #expect(state.freeStreams == 1)
        _ = state.settings(maximumStreams: 1000)
        #expect(state.freeStreams == 1000)
        _ = state.settings(maximumStreams: 0)
        #expect(state.freeStreams == 0)
    }

    @Test("The connection keeps our own stream limit even if the peer allows more") func ownLimit() {
        var rules = Self.rules
        rules.maximumStreams = 50
        #expect(open(limit: 10_000, rules).freeStreams == 50)
    }

    @Test(
        "Some answers retire the connection",
        arguments: [
            (500, String?("InternalServerError"), RetireCause.answered(status: 500, reason: "InternalServerError")),
            (503, "Shutdown", .answered(status: 503, reason: "Shutdown")),
            (502, nil, .answered(status: 502, reason: "502")),
            (403, "ExpiredProviderToken", .wedged(reason: "ExpiredProviderToken")),
            (403, "UnrelatedKeyIdInToken", .wedged(reason: "UnrelatedKeyIdInToken")),
            (403, "InvalidProviderToken", .credential(reason: "InvalidProviderToken")),
            (403, "BadEnvironmentKeyInToken", .credential(reason: "BadEnvironmentKeyInToken")),
            (403, "BadEnvironmentKeyIdInToken", .credential(reason: "BadEnvironmentKeyIdInToken")),
            (429, "TooManyProviderTokenUpdates", .answered(status: 429, reason: "TooManyProviderTokenUpdates")),
        ])
    func retiringAnswers(status: Int, reason: String?, cause: RetireCause) {
        var state = open()
        for _ in 0..<3 { state.requestSubmitted() }
        #expect(state.answered(status: status, reason: reason) == [.retire(cause)])
        #expect(state.streamEnded() == nil)
        #expect(state.freeStreams == 0)
        #expect(state.answered(status: status, reason: reason) == [], "retired once")
        #expect(state.streamEnded() == nil)
        #expect(state.accepted() == nil)
        #expect(state.streamEnded() == .close(.drained))
        #expect(state.streamEnded() == nil || state.isClosed)
    }

    @Test("A rejected topic or token never retires a connection") func rejectedTopics() {
        var state = open()
        state.requestSubmitted()
        #expect(state.answered(status: 400, reason: "TopicDisallowed").isEmpty)
        #expect(state.answered(status: 400, reason: "BadDeviceToken").isEmpty)
        #expect(state.answered(status: 410, reason: "Unregistered").isEmpty)
    }

    @Test(
        "GOAWAY ends new requests, and its reason decides what follows",
        arguments: [
            (String?.none, RetireCause.goAway(reason: nil)), ("Shutdown", .goAway(reason: "Shutdown")),
            ("ENHANCE_YOUR_CALM", .goAway(reason: "ENHANCE_YOUR_CALM")),
            ("BadCertificateEnvironment", .credential(reason: "BadCertificateEnvironment")),
            ("ExpiredProviderToken", .wedged(reason: "ExpiredProviderToken")),
        ])
    func goAwayEndsNewRequestsAndItsReasonDecidesWhatFollows(reason: String?, cause: RetireCause) {
        var state = open()
        state.requestSubmitted()
        #expect(state.goAway(reason: reason) == .retire(cause))
        #expect(state.freeStreams == 0)
        #expect(state.goAway(reason: reason) == nil)
        #expect(state.streamEnded() == .close(.drained))
    }

    @Test("An idle connection closes right after GOAWAY") func idleGoAway() {
        var state = open()
        _ = state.goAway(reason: nil)
        #expect(state.tick(now: start) == [.close(.drained)])
    }

    @Test("A silent connection sends a PING and closes if no answer comes") func silenceIsPingedAndUnansweredPingsEndIt() {
        var state = open()
        state.received(now: start + .seconds(1))
        #expect(state.tick(now: start + .seconds(30)).isEmpty)
        #expect(state.nextTick == start + .seconds(31))
        #expect(state.tick(now: start + .seconds(31)) == [.sendPing])
        #expect(state.tick(now: start + .seconds(32)).isEmpty)
        #expect(state.nextTick == start + .seconds(41))
        #expect(state.tick(now: start + .seconds(41)) == [.close(.pingTimeout)])
        #expect(state.isClosed)
    }

    @Test("Any received byte proves that the peer is alive") func signOfLife() {
        var state = open()
        #expect(state.tick(now: start + .seconds(30)) == [.sendPing])
        state.received(now: start + .seconds(39))
        #expect(state.tick(now: start + .seconds(41)).isEmpty)
        #expect(state.tick(now: start + .seconds(69)) == [.sendPing])
    }

    @Test("A connection gives up a peer that never sends SETTINGS") func mutePeer() {
        var state = ConnectionState(Self.rules, now: start)
        #expect(state.tick(now: start + .seconds(4)).isEmpty)
        #expect(state.tick(now: start + .seconds(5)) == [.close(.silentPeer)])
    }

    @Test("Three timeouts in a row retire the connection, and so do frequent single ones")
    func timeoutsInARowRetireAndSoDoesOneInAHundred() {
        var inARow = open()
        #expect(inARow.timedOut() == nil)
        #expect(inARow.timedOut() == nil)
        #expect(inARow.timedOut() == .retire(.timeouts))

        var rare = open()
        for _ in 0..<50 {
            #expect(rare.timedOut() == nil)
            for _ in 0..<200 { _ = rare.accepted() }
        }
        var often = open()
        var retired = false
        for _ in 0..<50 where !retired {
            retired = often.timedOut() != nil
            for _ in 0..<30 { _ = often.accepted() }
        }
        #expect(retired)
    }

    @Test("Three resets in a row retire the connection, and so do many refusals") func resets() {
        var state = open()
        #expect(!state.isFaulty(at: start))
        #expect(state.streamReset(isRefusal: false) == nil)
        #expect(state.isFaulty(at: start))
        #expect(state.timedOut() == nil, "both count together")
        #expect(state.streamReset(isRefusal: false) == .retire(.resets))

        var refusing = open()
        for _ in 0..<299 { #expect(refusing.streamReset(isRefusal: true) == nil) }
        for _ in 0..<100 { _ = refusing.accepted() }
        for _ in 0..<100 { #expect(refusing.streamReset(isRefusal: true) == nil) }
        #expect(refusing.streamReset(isRefusal: true) == .retire(.resets))

        var recovered = open()
        _ = recovered.streamReset(isRefusal: true)
        _ = recovered.accepted()
        #expect(!recovered.isFaulty(at: start))
    }

    @Test("A fault keeps requests away for half a minute, and counts until answers outweigh it") func avoidance() {
        var state = open()
        state.received(now: start + .seconds(100))
        _ = state.timedOut()
        #expect(state.isFaulty(at: start + .seconds(129)))
        #expect(!state.isFaulty(at: start + .seconds(130)))
        state.received(now: start + .seconds(500))
        #expect(state.timedOut() == nil)
        #expect(state.isFaulty(at: start + .seconds(529)))
        state.received(now: start + .seconds(1000))
        #expect(state.timedOut() == .retire(.timeouts), "three in a row, however far apart")
    }

    @Test("A connection that has accepted nothing and answers with 403 is the worse choice, and is replaced in the end") func useless() {
        var state = open(proven: false)
        for _ in 0..<299 { #expect(state.answered(status: 403, reason: "SomethingNew").isEmpty) }
        #expect(state.isFaulty(at: start))
        #expect(state.answered(status: 403, reason: "Forbidden") == [.retire(.answered(status: 403, reason: "Forbidden"))])

        var proven = open()
        _ = proven.answered(status: 403, reason: "Forbidden")
        #expect(!proven.isFaulty(at: start), "about the request")
    }

    @Test("A connection retires if the peer allows no stream for long") func noStreams() {
        var state = open()
        state.received(now: start + .seconds(1))
        for limit in [0, 1] { _ = state.settings(maximumStreams: limit) }
        #expect(state.tick(now: start + .seconds(7)).isEmpty)
        for _ in 0..<2 { _ = state.settings(maximumStreams: 0) }
        #expect(state.nextTick == start + .seconds(12))
        #expect(state.tick(now: start + .seconds(11)).isEmpty)
        #expect(state.tick(now: start + .seconds(12)) == [.retire(.timeouts), .close(.drained)])
    }

    @Test("There is room for what leaves at once, and an eighth of the window is kept for `now`") func room() {
        var state = open()
        func room(_ window: Int, _ pending: Int = 0) -> [Int] {
            let room = state.room(window: window, pending: pending)
            return [room.now.requests, room.now.bytes, room.others.requests, room.others.bytes]
        }
        #expect(room(65_535) == [256, 65_535, 256, 65_535 - 8191])
        #expect(room(9000) == [256, 9000, 256, 9000 - 8191])
        #expect(room(65_535, 60_000) == [256, 5535, 256, 5535 - 8191])
        #expect(room(1 << 24) == [256, 65_536, 256, 65_536], "one turn")
        state.received(now: start, window: 1 << 20)
        #expect(room(150_000) == [256, 65_536, 256, 150_000 - 131_072])
        for _ in 0..<900 { state.requestSubmitted() }
        #expect(room(1 << 20) == [100, 65_536, 38, 65_536])
        #expect(state.room(window: 65_536, pending: 0).others.isFull && !state.room(window: 150_000, pending: 0).others.isFull)
    }

    @Test("Age and used-up stream numbers end a connection gracefully") func ageAndStreamNumbersEndAConnectionGracefully() {
        var old = open()
        old.received(now: start + .seconds(86_399))
        #expect(old.tick(now: start + .seconds(86_399)).isEmpty)
        #expect(old.tick(now: start + .seconds(86_400)) == [.retire(.age), .close(.drained)])

        var rules = Self.rules
        rules.maximumRequests = 3
        var used = open(rules)
        used.requestSubmitted()
        #expect(used.tick(now: start).isEmpty)
        used.requestSubmitted()
        #expect(used.tick(now: start) == [.retire(.streamIDsUsedUp)])
        #expect(used.streamEnded() == nil)
        #expect(used.streamEnded() == .close(.drained))
    }

    @Test("Draining waits for requests in flight, and cutting off does not") func draining() {
        var state = open()
        state.requestSubmitted()
        #expect(state.drain() == [.retire(.poolDecided)])
        #expect(state.freeStreams == 0)
        #expect(state.cutOff() == .close(.cutOff))
        #expect(state.cutOff() == nil)
        #expect(state.connectionLost("x") == nil, "closed once")

        var idle = open()
        #expect(idle.drain() == [.retire(.poolDecided), .close(.drained)])
    }
}
