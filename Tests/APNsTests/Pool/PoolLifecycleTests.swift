import Testing

@testable import APNs

@Suite("What a pool decides")
struct PoolLifecycleTests {
    private func lifecycle(connections: Int = 1, maximum: Int? = nil) -> PoolLifecycle {
        var rules = APNsPoolConfiguration()
        (rules.connections, rules.maximumConnections) = (connections, maximum ?? connections)
        // Jitter at its largest, so that times are exact.
        var pool = PoolLifecycle(rules, now: start, jitter: { 1 })
        pool.arrived(2, now: start)
        return pool
    }

    private func ticked(_ pool: inout PoolLifecycle, after duration: Duration = .zero) -> [PoolLifecycle.Action] {
        pool.tick(now: start + duration, lastWork: start + duration)
    }

    @Test("A pool opens its connections one after another") func connectionsAreOpenedOneAfterAnother() {
        var pool = lifecycle(connections: 3)
        #expect(ticked(&pool) == [.dial(1)])
        #expect(ticked(&pool, after: .milliseconds(499)).isEmpty)
        #expect(ticked(&pool, after: .milliseconds(500)) == [.dial(2)])
        #expect(ticked(&pool, after: .seconds(1)) == [.dial(3)])
        #expect(ticked(&pool, after: .seconds(9)).isEmpty)
        #expect(pool.state == .connecting)
        #expect(pool.opened(2) == [])
        #expect(pool.state == .ready)
    }

    @Test("A pool opens nothing without work, and one connection for one request") func opensForWork() {
        var pool = PoolLifecycle(lifecycle(connections: 3).rules, now: start, jitter: { 1 })
        #expect(ticked(&pool, after: .seconds(9)).isEmpty)
        #expect(pool.state == .idle)
        #expect(pool.nextWake(now: start, lastWork: start) == nil)
        pool.arrived(1, now: start + .seconds(10))
        #expect(ticked(&pool, after: .seconds(10)) == [.dial(1)])
        #expect(ticked(&pool, after: .seconds(20)).isEmpty)
        pool.arrived(1, now: start + .seconds(20))
        #expect(ticked(&pool, after: .seconds(20)) == [.dial(2)])
        #expect(ticked(&pool, after: .seconds(21)) == [.dial(3)])
    }

    @Test("Each failure to connect doubles the pause, up to a minute") func failuresAreFollowedByEverLongerPausesUpToAMinute() {
        var pool = lifecycle()
        var now = start
        var id = 1
        _ = pool.tick(now: now, lastWork: now)
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            #expect(pool.closed(id, now: now).isEmpty)
            let next = pool.nextWake(now: now, lastWork: now)
            let almost = now + .seconds(expected) - .milliseconds(1)
            #expect(pool.tick(now: almost, lastWork: almost).isEmpty)
            now += .seconds(expected)
            #expect(next.map { $0 <= now } == true)
            id += 1
            #expect(pool.tick(now: now, lastWork: now) == [.dial(id)])
        }
    }

    @Test("A pool replaces a connection that served at once, before it is closed") func replacedAtOnce() {
        var pool = lifecycle()
        _ = ticked(&pool)
        _ = pool.opened(1)
        pool.proven(1)
        #expect(pool.retiring(1, .goAway(reason: nil), now: start + .seconds(30)) == [.dial(2)])
        #expect(pool.closed(1, now: start + .seconds(31)).isEmpty)
        #expect(ticked(&pool, after: .seconds(100)).isEmpty)
    }

    @Test("A pool replaces a connection that ended soon after a delay") func replacedLater() {
        var pool = lifecycle()
        _ = ticked(&pool)
        _ = pool.opened(1)
        pool.proven(1)
        #expect(pool.retiring(1, .answered(status: 500, reason: nil), now: start + .seconds(2)).isEmpty)
        #expect(ticked(&pool, after: .milliseconds(2999)).isEmpty)
        #expect(ticked(&pool, after: .seconds(3)) == [.dial(2)])
    }

    @Test("The delay does not grow when connections serve and end soon again and again") func sameDelay() {
        var pool = lifecycle()
        var now = start
        #expect(pool.tick(now: now, lastWork: now) == [.dial(1)])
        for id in 1...20 {
            _ = pool.opened(id)
            pool.proven(id)
            #expect(pool.retiring(id, .goAway(reason: "Shutdown"), now: now + .milliseconds(200)).isEmpty)
            _ = pool.closed(id, now: now + .milliseconds(200))
            now += .milliseconds(1200)
            #expect(pool.tick(now: now, lastWork: now) == [.dial(id + 1)])
        }
    }

    @Test("A pool without a connection refuses new batches after its patience") func patienceEnds() {
        var pool = lifecycle()
        _ = ticked(&pool)
        #expect(pool.admission(now: start + .milliseconds(4999)) == .open)
        #expect(pool.admission(now: start + .seconds(5)) == .refusing(.notConnected))
        _ = pool.opened(1)
        #expect(pool.admission(now: start + .seconds(6)) == .open)
        _ = pool.closed(1, now: start + .seconds(10))
        #expect(pool.admission(now: start + .seconds(14)) == .open)
        #expect(pool.admission(now: start + .seconds(15)) == .refusing(.notConnected))
    }

    @Test("A saturated pool grows by one connection, and a quiet one shrinks by one") func growsAndShrinks() {
        var pool = lifecycle(connections: 1, maximum: 3)
        let full = PoolSize.Load(connections: 1, openStreams: 950, streamLimit: 1000, requestsWait: true)
        let empty = PoolSize.Load(connections: 2, openStreams: 3, streamLimit: 2000, requestsWait: false)
        _ = ticked(&pool)
        _ = pool.opened(1)
        #expect(pool.observe(full, now: start + .seconds(1)).isEmpty)
        #expect(pool.observe(full, now: start + .seconds(9)).isEmpty, "the first connection has not served a request yet")
        pool.proven(1)
        #expect(pool.observe(full, now: start + .seconds(10)).isEmpty)
        #expect(pool.observe(full, now: start + .seconds(11)) == [.dial(2)])
        #expect(pool.observe(full, now: start + .seconds(30)).isEmpty, "one at a time")
        _ = pool.opened(2)
        pool.proven(2)
        #expect(pool.nextWake(now: start + .seconds(40), lastWork: start + .seconds(40)) == start + .seconds(45))
        #expect(pool.observe(empty, now: start + .seconds(40)).isEmpty)
        #expect(pool.observe(empty, now: start + .seconds(339)).isEmpty)
        #expect(pool.observe(empty, now: start + .seconds(340)) == [.drain(2)])
        #expect(pool.retiring(2, .poolDecided, now: start + .seconds(340)).isEmpty)
        #expect(pool.closed(2, now: start + .seconds(340)).isEmpty)
        #expect(ticked(&pool, after: .seconds(400)).isEmpty, "the pool does not replace a connection that it drained")
        #expect(pool.observe(empty, now: start + .seconds(9000)).isEmpty, "the minimum stays")
    }

    @Test("A growing pool waits for the back-off, and a pause cancels the growth") func growthAndPause() {
        var pool = lifecycle(connections: 1, maximum: 2)
        let full = PoolSize.Load(connections: 1, openStreams: 1, streamLimit: 1, requestsWait: true)
        _ = ticked(&pool)
        _ = pool.opened(1)
        pool.proven(1)
        _ = pool.observe(full, now: start)
        #expect(pool.observe(full, now: start + .seconds(1)) == [.dial(2)])
        #expect(pool.closed(2, now: start + .seconds(1)).isEmpty)
        #expect(pool.observe(full, now: start + .milliseconds(1999)).isEmpty)
        #expect(ticked(&pool, after: .seconds(2)) == [.dial(3)])
        _ = pool.opened(3)
        #expect(pool.retiring(3, .credential(reason: "Forbidden"), now: start + .seconds(3)) == [.drain(1)])
        _ = pool.closed(1, now: start + .seconds(3))
        _ = pool.closed(3, now: start + .seconds(3))
        _ = ticked(&pool, after: .seconds(40))
        #expect(pool.workWaits(now: start + .seconds(40)) == [.dial(4)])
        _ = pool.opened(4)
        pool.proven(4)
        #expect(ticked(&pool, after: .seconds(41)).isEmpty)
    }

    @Test("A refused credential pauses the pool, which drains and then probes with one connection") func credentialPause() {
        var pool = lifecycle(connections: 2)
        _ = ticked(&pool)
        _ = ticked(&pool, after: .milliseconds(500))
        _ = pool.opened(1)
        _ = pool.opened(2)
        #expect(pool.retiring(1, .credential(reason: "InvalidProviderToken"), now: start) == [.drain(2)])
        #expect(pool.state == .paused(reason: "InvalidProviderToken"))
        #expect(pool.admission(now: start) == .refusing(.poolPaused))
        _ = pool.closed(1, now: start)
        _ = pool.closed(2, now: start)
        #expect(ticked(&pool, after: .milliseconds(29_000)).isEmpty)
        // The pause is over, but the pool opens a connection only for a request.
        #expect(ticked(&pool, after: .seconds(30)).isEmpty)
        #expect(pool.admission(now: start + .seconds(30)) == .open)
        #expect(pool.state == .paused(reason: "InvalidProviderToken"))
        #expect(pool.workWaits(now: start + .seconds(40)) == [.dial(3)])
        #expect(ticked(&pool, after: .seconds(41)).isEmpty, "one connection only")
        _ = pool.opened(3)
        // Still refused: twice as long.
        _ = pool.retiring(3, .credential(reason: "InvalidProviderToken"), now: start + .seconds(50))
        #expect(ticked(&pool, after: .seconds(109)).isEmpty)
        #expect(pool.admission(now: start + .seconds(109)) == .refusing(.poolPaused))
        _ = ticked(&pool, after: .seconds(110))
        #expect(pool.workWaits(now: start + .seconds(110)) == [.dial(4)])
        _ = pool.opened(4)
        pool.proven(4)
        #expect(pool.state == .ready)
        #expect(ticked(&pool, after: .seconds(111)) == [.dial(5)])
    }

    @Test("The pool replaces the first connection whose token expired and pauses after the next")
    func theFirstWedgedConnectionIsReplacedAndTheNextOnePauses() {
        var pool = lifecycle()
        _ = ticked(&pool)
        _ = pool.opened(1)
        pool.proven(1)
        #expect(pool.retiring(1, .wedged(reason: "ExpiredProviderToken"), now: start + .seconds(60)) == [.dial(2)])
        _ = pool.opened(2)
        _ = pool.retiring(2, .wedged(reason: "ExpiredProviderToken"), now: start + .seconds(61))
        #expect(pool.state == .paused(reason: "ExpiredProviderToken"))
    }

    @Test("Connections of one age whose tokens expire together do not pause the pool") func wedgedTogether() {
        var pool = lifecycle(connections: 2)
        _ = ticked(&pool)
        _ = ticked(&pool, after: .milliseconds(500))
        for id in 1...2 {
            _ = pool.opened(id)
            pool.proven(id)
        }
        _ = pool.retiring(1, .wedged(reason: "ExpiredProviderToken"), now: start + .seconds(60))
        _ = pool.retiring(2, .wedged(reason: "ExpiredProviderToken"), now: start + .seconds(60))
        #expect(pool.phase == .running)
    }

    @Test("An idle pool closes its connections, and the next batch opens one") func idlePool() {
        var pool = lifecycle()
        _ = ticked(&pool)
        _ = pool.opened(1)
        #expect(pool.tick(now: start + .seconds(3599), lastWork: start).isEmpty)
        #expect(pool.tick(now: start + .seconds(3600), lastWork: start) == [.drain(1)])
        #expect(pool.state == .idle)
        _ = pool.closed(1, now: start + .seconds(3600))
        #expect(pool.tick(now: start + .seconds(9000), lastWork: start).isEmpty)
        #expect(pool.admission(now: start + .seconds(9000)) == .open)
        #expect(pool.workWaits(now: start + .seconds(9000)) == [.dial(2)])
        #expect(pool.admission(now: start + .seconds(9004)) == .open)
        #expect(pool.admission(now: start + .seconds(9005)) == .refusing(.notConnected))
    }

    @Test("A pool that cannot connect and has no work stops trying") func stopsTrying() {
        var pool = lifecycle()
        _ = ticked(&pool)
        _ = pool.closed(1, now: start)
        #expect(pool.tick(now: start + .seconds(3599), lastWork: start) == [.dial(2)])
        _ = pool.closed(2, now: start + .seconds(3599))
        #expect(pool.tick(now: start + .seconds(3600), lastWork: start).isEmpty)
        #expect(pool.state == .idle)
        #expect(pool.nextWake(now: start + .seconds(3600), lastWork: start) == nil)
    }

    @Test("A pool opens nothing after shutdown") func afterShutdown() {
        var pool = lifecycle(connections: 2)
        _ = ticked(&pool)
        _ = pool.opened(1)
        #expect(pool.shutDown() == [.drain(1)])
        #expect(pool.admission(now: start) == .refusing(.shuttingDown))
        _ = pool.closed(1, now: start)
        #expect(ticked(&pool, after: .seconds(100)).isEmpty)
        #expect(pool.workWaits(now: start + .seconds(100)).isEmpty)
        #expect(pool.state == .closed)
        #expect(pool.opened(7) == [.drain(7)], "the pool drains a connection that was still being dialled")
    }

    @Test(
        "Connections that get only 5xx answers open the breaker, which probes with one connection after pauses that grow to fifteen minutes"
    )
    func breaker() {
        var pool = lifecycle()
        var now = start
        var id = 1
        func fault() -> [PoolLifecycle.Action] {
            _ = pool.opened(id)
            let actions = pool.retiring(id, .answered(status: 503, reason: "ServiceUnavailable"), now: now)
            _ = pool.closed(id, now: now)
            return actions
        }
        func dialNext() {
            id += 1
            now += .seconds(60)
            #expect(pool.tick(now: now, lastWork: now) == [.dial(id)])
        }
        _ = pool.tick(now: now, lastWork: now)
        for _ in 0..<2 {
            _ = fault()
            #expect(pool.phase == .running)
            dialNext()
        }
        #expect(fault().isEmpty)
        #expect(pool.state == .unavailable(reason: "ServiceUnavailable"))
        #expect(pool.admission(now: now) == .refusing(.unavailable))
        for pause in [5, 10, 20, 40, 80, 160, 320, 640, 900, 900] {
            let early = now + .seconds(pause) - .milliseconds(1)
            #expect(pool.tick(now: early, lastWork: early).isEmpty)
            #expect(pool.admission(now: early) == .refusing(.unavailable))
            now += .seconds(pause)
            _ = pool.tick(now: now, lastWork: now)
            #expect(pool.admission(now: now) == .open)
            id += 1
            #expect(pool.workWaits(now: now) == [.dial(id)])
            #expect(pool.workWaits(now: now).isEmpty, "one")
            _ = fault()
            #expect(pool.admission(now: now) == .refusing(.unavailable))
        }
        now += .seconds(900)
        _ = pool.tick(now: now, lastWork: now)
        id += 1
        #expect(pool.workWaits(now: now) == [.dial(id)])
        _ = pool.opened(id)
        pool.proven(id)
        #expect(pool.state == .ready)
        // The breaker counts from zero again.
        _ = fault()
        #expect(pool.phase == .running)
    }

    @Test("Answers that are no outage leave the breaker closed", arguments: [(503, "Shutdown"), (429, "TooManyProviderTokenUpdates")])
    func noOutage(status: Int, reason: String) {
        var pool = lifecycle()
        var now = start
        for id in 1...10 {
            #expect(pool.tick(now: now, lastWork: now) == [.dial(id)])
            _ = pool.opened(id)
            _ = pool.retiring(id, .answered(status: status, reason: reason), now: now)
            _ = pool.closed(id, now: now)
            #expect(pool.phase == .running)
            now += .seconds(60)
        }
    }

    @Test("Faults of connections that had served before leave the breaker closed")
    func aPoisonedConnectionAmongGoodOnesLeavesTheBreakerClosed() {
        var pool = lifecycle()
        var now = start
        for id in 1...10 {
            #expect(pool.tick(now: now, lastWork: now) == [.dial(id)])
            _ = pool.opened(id)
            pool.proven(id)
            _ = pool.retiring(id, .answered(status: 500, reason: "InternalServerError"), now: now)
            _ = pool.closed(id, now: now)
            #expect(pool.phase == .running)
            now += .seconds(60)
        }
    }

    @Test("A connection that closes twice counts once") func aConnectionThatIsClosedTwiceIsClosedOnce() {
        var pool = lifecycle()
        _ = ticked(&pool)
        _ = pool.opened(1)
        pool.proven(1)
        #expect(pool.retiring(1, .goAway(reason: nil), now: start + .seconds(40)) == [.dial(2)])
        #expect(pool.retiring(1, .answered(status: 500, reason: nil), now: start + .seconds(40)).isEmpty)
        for _ in 0..<3 { #expect(pool.closed(1, now: start + .seconds(41)).isEmpty) }
        _ = pool.opened(2)
        #expect(pool.state == .ready)
        #expect(ticked(&pool, after: .seconds(100)).isEmpty, "no third one is dialled")
        // A late event of a closed connection changes nothing.
        #expect(pool.opened(1) == [.drain(1)])
        pool.proven(1)
        #expect(pool.usableConnections == 1)
    }
}
