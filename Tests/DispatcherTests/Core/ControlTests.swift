import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("The control stream stops deliveries")
struct ControlTests {
    let installation = PushID(high: 9, low: 9)

    @Test("The dispatcher takes no job before it has read the control stream to the end")
    func readsFirst() throws {
        let bench = try CoreBench(isCaughtUp: false)
        #expect(!bench.gate.isOpen)
        bench.handle(.controlConnection(isUp: true))
        bench.obey(.marker(id: .random()), .fence(app: Fixture.shop, installation: installation, epochsBelow: 2, at: bench.now))
        #expect(!bench.others.contains { if case .startTaking = $0 { true } else { false } }, "another dispatcher's marker proves nothing")
        try bench.returnMarker()
        #expect(bench.others.contains { if case .startTaking = $0 { true } else { false } })
        #expect(bench.gate.isOpen)
    }

    @Test("A fence stops queued deliveries of ended epochs, and no others")
    func fences() throws {
        let bench = try CoreBench()
        bench.obey(.fence(app: Fixture.shop, installation: installation, epochsBelow: 3, at: bench.now))
        bench.take(
            Fixture.job([
                Fixture.delivery(1, installation: installation, ownerEpoch: 2),
                Fixture.delivery(2, installation: installation, ownerEpoch: 3),
                Fixture.delivery(3, ownerEpoch: 1),
            ]))
        #expect(bench.submitted.map { $0.batch.requests.map(\.index) } == [[1, 2]])
        #expect(bench.events.map(\.outcome) == [.fenced])
        bench.take(Fixture.job([Fixture.delivery(4, installation: installation, ownerEpoch: 1)], app: Fixture.other), tag: 2)
        #expect(bench.submitted.last?.batch.requests.count == 1, "another app's installation of the same name is another installation")
    }

    @Test("A fence also stops deliveries that a pool holds and has not sent")
    func fencesAtTheGate() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1, installation: installation, ownerEpoch: 2)]))
        let batch = try #require(bench.submitted.first?.batch)
        #expect(bench.gate.stopReason(for: batch.requests[0], of: batch) == nil)
        bench.obey(.fence(app: Fixture.shop, installation: installation, epochsBelow: 3, at: bench.now))
        #expect(bench.gate.stopReason(for: batch.requests[0], of: batch) == .fenced)
        bench.finishNext { _ in .stopped(.fenced) }
        #expect(bench.events.map(\.outcome) == [.fenced])
    }

    @Test("An older fence that is read again does not lower a newer one")
    func keepsTheHighestFence() {
        var state = ControlState()
        state.fence(app: 0, installation: installation, epochsBelow: 5, at: 50)
        state.fence(app: 0, installation: installation, epochsBelow: 3, at: 30)
        #expect(state.isFenced(app: 0, installation: installation, ownerEpoch: 4))
        state.forget(before: 50)
        #expect(state.count == 1)
        state.forget(before: 51)
        #expect(state.count == 0)
    }

    @Test("Each step of forgetting looks at a part of the fences, because every request waits for it")
    func forgetsInParts() {
        var state = ControlState()
        let count = 100_000
        for number in 0..<count {
            state.fence(app: 0, installation: PushID(high: 1, low: UInt64(number)), epochsBelow: 5, at: Int64(number))
        }
        #expect(state.count == count)
        let (old, moment) = (count / 2, Int64(count / 2))
        state.forget(before: moment)
        // At most the thousand entries that it looks at, and the surplus of the last part.
        #expect((count - 2_000..<count).contains(state.count))
        // Parts hold a hundred each.
        for _ in 0..<200 { state.forget(before: moment) }
        #expect(state.count == count - old)
        #expect(!state.isFenced(app: 0, installation: PushID(high: 1, low: UInt64(old - 1)), ownerEpoch: 1))
        #expect(state.isFenced(app: 0, installation: PushID(high: 1, low: UInt64(old)), ownerEpoch: 1))
    }

    @Test("A cancelled notification is stopped in the queue and in a pool")
    func cancels() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], notification: 1))
        bench.take(Fixture.job([Fixture.delivery(2)], notification: 2), tag: 2)
        bench.obey(.cancel(app: Fixture.shop, notification: PushID(high: 0xa, low: 1), at: bench.now))
        let (cancelled, untouched) = (bench.submitted[0].batch, bench.submitted[1].batch)
        #expect(bench.gate.stopReason(for: cancelled.requests[0], of: cancelled) == .cancelled)
        #expect(bench.gate.stopReason(for: untouched.requests[0], of: untouched) == nil)
        bench.take(Fixture.job([Fixture.delivery(3)], notification: 1), tag: 3)
        #expect(bench.submitted.count == 2)
        #expect(bench.events.map(\.outcome) == [.cancelled])
    }

    @Test("The dispatcher forgets entries that can stop no living job")
    func forgets() throws {
        let bench = try CoreBench()
        bench.obey(.fence(app: Fixture.shop, installation: installation, epochsBelow: 3, at: bench.now))
        // An app without a credential, because one may come.
        bench.obey(.fence(app: Fixture.unconfigured, installation: installation, epochsBelow: 3, at: bench.now))
        #expect(bench.gate.count == 2)
        bench.tick(after: 74 * 3_600_000)
        #expect(bench.gate.count == 0)
    }

    @Test("Without the control connection the dispatcher sends nothing; afterwards it checks waiting deliveries again and sends them")
    func parks() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        let batch = try #require(bench.submitted.first?.batch)
        bench.handle(.controlConnection(isUp: false))
        #expect(bench.gate.stopReason(for: batch.requests[0], of: batch) == .held)
        bench.finishNext { _ in .stopped(.held) }
        bench.take(
            Fixture.job([Fixture.delivery(2, installation: installation, ownerEpoch: 1), Fixture.delivery(3)], notification: 8), tag: 2)
        #expect(bench.submitted.isEmpty)
        #expect(bench.published.isEmpty)

        bench.handle(.controlConnection(isUp: true))
        bench.obey(.fence(app: Fixture.shop, installation: installation, epochsBelow: 2, at: bench.now))
        #expect(bench.submitted.isEmpty)
        try bench.returnMarker()
        #expect(Set(bench.submitted.map { $0.batch.requests.map(\.index) }) == [[0], [1]])
        #expect(bench.events.map(\.outcome) == [.fenced])
    }

    @Test("How long the broker may take to confirm is a setting") func patienceIsASetting() throws {
        let bench = try CoreBench { $0.confirmPatience = 2000 }
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        bench.tick(after: 1999)
        #expect(bench.gate.isOpen)
        bench.tick(after: 1)
        #expect(!bench.gate.isOpen)
    }

    @Test("A pool that asked while the gate was shut gets its delivery back at once when the gate opens")
    func sendsHeldAgain() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext { _ in .stopped(.held) }
        #expect(bench.submitted.count == 1)
    }

    @Test("Jobs that wait too long for the control stream wait in the broker")
    func movesWaiting() throws {
        let bench = try CoreBench()
        bench.handle(.controlConnection(isUp: false))
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.tick(after: 59_000)
        #expect(bench.published.isEmpty)
        bench.tick(after: 1_000)
        #expect(bench.retries(after: .thirtySeconds).map(\.attempt) == [0])
        bench.confirmNext()
        #expect(bench.acknowledged.count == 1)
    }

    @Test("If another node than the confirming one serves the stream, only a marker allows sending")
    func otherNode() throws {
        let bench = try CoreBench()
        bench.core.control.readsWhereItPublishes = false
        for tag in [1, 2] as [UInt64] {
            bench.tick(after: CoreRules.standardConfirmPatience - 1)
            #expect(bench.gate.isOpen)
            // The broker confirms messages that are published meanwhile.
            bench.take(Fixture.job([Fixture.delivery(Int(tag))]), tag: tag)
            bench.finishNext(200)
            bench.tick(after: 1)
            #expect(!bench.gate.isOpen)
            try bench.returnMarker()
            #expect(bench.gate.isOpen)
        }
        #expect(bench.core.effects.tally.controlDoubts == 0)
    }

    @Test("When the broker does not confirm, the dispatcher sends nothing until a new marker returns")
    func doubtsTheStream() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        bench.tick(after: CoreRules.standardConfirmPatience - 1)
        #expect(bench.gate.isOpen)
        bench.tick(after: 1)
        #expect(!bench.gate.isOpen)
        #expect(
            bench.others.contains {
                if case .note(.controlUncertain(let reason)) = $0 { reason.contains("BROKER_CONFIRM_PATIENCE_MILLISECONDS") } else { false }
            })
        #expect(bench.core.effects.tally.controlDoubts == 1)
        bench.take(Fixture.job([Fixture.delivery(2)]), tag: 2)
        #expect(bench.submitted.isEmpty)
        try bench.returnMarker()
        #expect(bench.gate.isOpen)
        #expect(bench.submitted.count == 1)
    }

    @Test("A dispatcher at rest notices a silent broker within a second, and new jobs wait for late control messages")
    func sendsHeartbeats() throws {
        let bench = try CoreBench { $0.heartbeatInterval = 200 }
        bench.tick(after: 200)
        #expect(bench.published.map { $0.messages.map(\.routingKey) } == [[bench.topology.heartbeatQueue]])
        bench.confirmNext()
        bench.tick(after: 100)
        #expect(bench.published.isEmpty, "not due yet")
        bench.tick(after: 100)
        for _ in 0..<7 { bench.tick(after: 100) }
        #expect(!bench.gate.isOpen)
        // The link works again, and the job arrives before the fence.
        bench.take(Fixture.job([Fixture.delivery(1, installation: installation, ownerEpoch: 2)]))
        #expect(bench.submitted.isEmpty)
        bench.obey(.fence(app: Fixture.shop, installation: installation, epochsBelow: 3, at: bench.now))
        bench.confirmNext()
        try bench.returnMarker()
        #expect(bench.gate.isOpen)
        #expect(bench.submitted.isEmpty)
        #expect(bench.events.map(\.outcome) == [.fenced])
    }

    @Test("A dispatcher publishes no heartbeat while others of its messages are published and confirmed, because they prove as much")
    func publicationsAreHeartbeats() throws {
        let bench = try CoreBench { $0.heartbeatInterval = 200 }
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        bench.tick(after: 199)
        #expect(bench.published.count == 1)
        bench.confirmNext()
        bench.tick(after: 100)
        #expect(bench.published.count == 1, "the last publication is 300 ms old")
        bench.confirmNext(.failed(.nacked))
        #expect(!bench.gate.isOpen, "a failed publication proves nothing")
        try bench.returnMarker()
        #expect(bench.gate.isOpen)
    }

    @Test("A marker that comes back late proves nothing, because later messages may lie behind it")
    func lateMarker() throws {
        let bench = try CoreBench(isCaughtUp: false)
        bench.handle(.controlConnection(isUp: true))
        bench.take(Fixture.job([Fixture.delivery(1, installation: installation, ownerEpoch: 2)]))
        bench.tick(after: 3_000)
        try bench.returnMarker()
        #expect(!bench.gate.isOpen)
        #expect(bench.submitted.isEmpty)
        // This message lay behind the marker.
        bench.obey(.fence(app: Fixture.shop, installation: installation, epochsBelow: 3, at: bench.now))
        try bench.returnMarker()
        #expect(bench.gate.isOpen)
        #expect(bench.submitted.isEmpty)
        #expect(bench.events.map(\.outcome) == [.fenced])
    }

    @Test("If the broker has a marker that does not come back, the consumer and the publisher reconnect")
    func readsAnew() throws {
        let bench = try CoreBench(isCaughtUp: false)
        func reconnects() -> Int { bench.others.count { if case .reconnectControl = $0 { true } else { false } } }
        bench.handle(.controlConnection(isUp: true))
        bench.tick(after: 60_000)
        #expect(reconnects() == 0, "if the broker does not answer, the publisher reconnects by itself")
        try bench.confirmMarker()
        bench.tick(after: 900)
        bench.obey(.fence(app: Fixture.shop, installation: installation, epochsBelow: 3, at: bench.now))
        bench.tick(after: 900)
        #expect(reconnects() == 0, "much is left to read")
        bench.tick(after: 100)
        #expect(reconnects() == 1)
        bench.tick(after: 900)
        #expect(reconnects() == 1)
        bench.handle(.controlConnection(isUp: false))
        bench.handle(.controlConnection(isUp: true))
        try bench.returnMarker()
        #expect(bench.gate.isOpen)
    }

    @Test("A queue that confirms nothing does not end the proof by markers; each proof lasts as long as the wait for a confirm")
    func provesAgainAndAgain() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        bench.tick(after: CoreRules.standardConfirmPatience)
        #expect(!bench.gate.isOpen)
        bench.now += 100
        try bench.returnMarker()
        bench.tick(after: CoreRules.standardConfirmPatience - 101)
        #expect(bench.gate.isOpen)
        bench.tick(after: 1)
        #expect(!bench.gate.isOpen)
        try bench.returnMarker()
        #expect(bench.gate.isOpen)
    }

    @Test("An entry that is malformed or of an unknown kind stops nothing")
    func passesOver() throws {
        let bench = try CoreBench()
        bench.handle(.controlReceived([Fixture.message(Array("{".utf8)), Fixture.message(Array(#"{"v":1,"kind":"slow_down"}"#.utf8))]))
        bench.obey(.fence(app: Fixture.shop, installation: installation, epochsBelow: 3, at: bench.now))
        #expect(bench.gate.count == 1)
        let acknowledged = bench.others.reduce(0) { count, action in
            if case .acknowledgeControl(let deliveryTags) = action { count + deliveryTags.count } else { count }
        }
        #expect(acknowledged == 4)
    }

    @Test("A control message counts when its copy comes, before the stream delivers it")
    func copyCounts() throws {
        let bench = try CoreBench()
        bench.hear([(.fence(app: Fixture.shop, installation: installation, epochsBelow: 3, at: bench.now), id: PushID.random())])
        bench.take(Fixture.job([Fixture.delivery(1, installation: installation, ownerEpoch: 2)]))
        #expect(bench.submitted.isEmpty && bench.events.map(\.outcome) == [.fenced])
    }

    @Test("A copy whose entry does not come from the stream within a second shows that the stream is late")
    func lateStream() throws {
        let bench = try CoreBench()
        bench.hear([(.cancel(app: Fixture.shop, notification: .random(), at: bench.now), id: PushID.random())])
        bench.tick(after: 999)
        #expect(bench.gate.isOpen)
        bench.tick(after: 1)
        #expect(!bench.gate.isOpen && bench.markers.count == 1)
        try bench.returnMarker()
        #expect(bench.gate.isOpen)
        bench.tick(after: 5_000)
        #expect(bench.gate.isOpen && bench.markers.isEmpty, "it is asked for once")
    }

    @Test("An entry and its copy, in either order, are no doubt; nor is an entry without a copy", arguments: [true, false])
    func matching(copyFirst: Bool) throws {
        let bench = try CoreBench()
        let (message, id) = (ControlMessage.cancel(app: Fixture.shop, notification: .random(), at: bench.now), PushID.random())
        let entry = CoreEvent.controlReceived([Fixture.control(message, offset: 100, id: id)])
        if copyFirst { bench.hear([(message, id: id)]) }
        bench.handle(entry)
        if !copyFirst { bench.hear([(message, id: id)]) }
        bench.handle(.controlReceived([Fixture.control(message, offset: 101, id: .random())]))
        for _ in 0..<30 { bench.tick(after: 100) }
        #expect(bench.gate.isOpen && bench.markers.isEmpty)
    }

    @Test("A copy that comes late, comes again, or belongs to an entry that was read before the marker is no doubt", arguments: 0..<3)
    func lateCopies(way: Int) throws {
        let bench = try CoreBench(isCaughtUp: way != 2)
        let (message, id) = (ControlMessage.cancel(app: Fixture.shop, notification: .random(), at: bench.now), PushID.random())
        if way == 2 { bench.handle(.controlConnection(isUp: true)) }
        bench.handle(.controlReceived([Fixture.control(message, offset: 100, id: id)]))
        if way == 2 { try bench.returnMarker() }
        if way == 1 { bench.hear([(message, id: id)]) }
        for _ in 0..<20 { bench.tick(after: 1_000) }
        bench.hear([(message, id: id)])
        for _ in 0..<30 { bench.tick(after: 100) }
        #expect(bench.gate.isOpen && bench.markers.isEmpty)
    }

    @Test("A marker that the broker did not take is replaced, though other entries come all the time")
    func refusedMarker() throws {
        let bench = try CoreBench(isCaughtUp: false)
        bench.handle(.controlConnection(isUp: true))
        let (id, _) = try #require(bench.markers.first)
        bench.forgetMarkers()
        bench.handle(.markerPublished(id, .failed(.nacked)))
        for _ in 0..<30 where bench.markers.isEmpty {
            bench.obey(.fence(app: Fixture.shop, installation: .random(), epochsBelow: 2, at: bench.now))
            bench.tick(after: 500)
        }
        try bench.returnMarker()
        #expect(bench.gate.isOpen)
    }

    @Test("A marker that was lost is replaced, though other entries come all the time")
    func lostMarker() throws {
        let bench = try CoreBench(isCaughtUp: false)
        bench.handle(.controlConnection(isUp: true))
        try bench.confirmMarker()
        for _ in 0..<30 where bench.markers.isEmpty {
            bench.obey(.fence(app: Fixture.shop, installation: .random(), epochsBelow: 2, at: bench.now))
            bench.tick(after: 500)
        }
        try bench.returnMarker()
        #expect(bench.gate.isOpen)
    }

    @Test("A reader that stays silent twice goes to another node; one that was silent once stays")
    func leavesTheNode() throws {
        let bench = try CoreBench(isCaughtUp: false)
        var leaving: [Bool] = []
        for _ in 0..<3 {
            bench.handle(.controlConnection(isUp: true))
            try bench.confirmMarker()
            bench.tick(after: 1_000)
            bench.handle(.controlConnection(isUp: false))
        }
        for case .reconnectControl(_, let isLeaving) in bench.others { leaving.append(isLeaving) }
        #expect(leaving == [false, true, true])
    }

    @Test("Reader and publisher come together: each marker stays in the stream for days")
    func comesTogether() throws {
        let bench = try CoreBench()
        bench.core.control.readsWhereItPublishes = false
        for _ in 0..<99 { bench.tick(after: 100) }
        func moves() -> Int { bench.others.count { if case .reconnectPublisher = $0 { true } else { false } } }
        #expect(moves() == 0)
        for _ in 0..<3 { bench.tick(after: 100) }
        #expect(moves() == 1)
        bench.core.control.readsWhereItPublishes = true
        for _ in 0..<300 { bench.tick(after: 100) }
        #expect(moves() == 1)
    }

    @Test("One queue that owes a confirmation is no doubt while others confirm")
    func oneSilentQueue() throws {
        let bench = try CoreBench { $0.heartbeatInterval = 200 }
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(429, "TooManyRequests")
        bench.settleSome { $0.exchange.hasPrefix("push.retry.") ? nil : .confirmed }
        for _ in 0..<100 {
            bench.tick(after: 100)
            while !bench.published.isEmpty { bench.confirmNext() }
        }
        #expect(bench.gate.isOpen && bench.markers.isEmpty)
        #expect(!bench.others.contains { if case .note(.controlUncertain) = $0 { true } else { false } })
    }

    @Test("A busy dispatcher whose outcomes are not confirmed has no doubt, because the broker confirms heartbeats")
    func silentOutcomes() throws {
        let bench = try CoreBench { $0.heartbeatInterval = 200 }
        for round in 0..<50 {
            bench.take(Fixture.job([Fixture.delivery(round)]), tag: UInt64(round + 1))
            bench.finishNext(200)
            bench.tick(after: 100)
            while !bench.published.isEmpty {
                bench.settleSome { $0.exchange == bench.topology.outcomesExchange ? nil : .confirmed }
            }
        }
        #expect(bench.gate.isOpen && bench.markers.isEmpty)
    }

    @Test("Jobs that wait while the broker confirms nothing stay here, so that no second copy of them is made")
    func waitsThroughAlarm() throws {
        let bench = try CoreBench { $0.heartbeatInterval = 200 }
        bench.tick(after: 200)
        let heartbeats = bench.published.count
        #expect(heartbeats == 1)
        bench.tick(after: 1_000)
        #expect(!bench.gate.isOpen)
        bench.take(Fixture.job([Fixture.delivery(1)]))
        for _ in 0..<300 { bench.tick(after: 1_000) }
        #expect(bench.retries().isEmpty && bench.submitted.isEmpty)
        // The broker delivers it anew when its patience ends; that copy alone lives.
        bench.loseJobs()
        bench.take(Fixture.job([Fixture.delivery(1)]), tag: 2)
        while !bench.published.isEmpty { bench.confirmNext() }
        while !bench.markers.isEmpty { try bench.returnMarker() }
        bench.tick(after: 100)
        #expect(bench.gate.isOpen && bench.submitted.count == 1)
    }

    @Test("A retry that is not written yet is taken back when the broker delivers its job anew")
    func withdraws() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.take(Fixture.job([Fixture.delivery(2)], lane: .bulk), tag: 2)
        for _ in 1...2 { bench.finishNext(429, "TooManyRequests") }
        let retries = bench.published.flatMap(\.messages).filter { $0.exchange.hasPrefix("push.retry.") }
        bench.handle(.jobsConnection(.now, isUp: false))
        #expect(retries.map { $0.withdrawal?.isMade } == [true, false])
        while !bench.published.isEmpty { bench.settleNext { $0.withdrawal?.isMade == true ? .failed(.withdrawn) : .confirmed } }
        bench.tick(after: 1_000)
        #expect(bench.published.isEmpty && bench.core.isDrained)
        #expect(bench.acknowledged.map(\.tag) == [2], "another lane's connection still holds")
    }

}
