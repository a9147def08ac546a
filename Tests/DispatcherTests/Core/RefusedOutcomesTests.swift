import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("Outcomes that the broker refuses")
struct RefusedOutcomesTests {
    /// APNs answers the first job, and its outcome must wait.
    private static func refusedBench(_ change: (inout CoreRules) -> Void = { _ in }) throws -> CoreBench {
        let bench = try CoreBench(change)
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        bench.confirmNext(.confirmedElsewhere)
        return bench
    }

    /// The broker takes everything except outcomes and probes; outcomes wait in another queue.
    private static func settleAll(_ bench: CoreBench) {
        while !bench.published.isEmpty {
            bench.settleNext { message in
                guard message.exchange == bench.topology.outcomesExchange else { return .confirmed }
                return message.fallbackExchanges.isEmpty ? .failed(.nacked) : .confirmedElsewhere
            }
        }
    }

    @Test("Refused outcomes wait in a durable queue, and their job is acknowledged when the queue has them")
    func waitElsewhere() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        #expect(bench.published.flatMap(\.messages).map(\.fallbackExchanges) == [[bench.topology.waitingOutcomesExchange]])
        bench.confirmNext(.confirmedElsewhere)
        #expect(bench.acknowledged.map(\.tag) == [1])
        #expect(bench.core.book.refused.isEmpty)
    }

    @Test("The dispatcher sends nothing until the broker takes an outcome again, tries once a second, and then checks and sends the rest")
    func stopsSending() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        bench.take(Fixture.job([Fixture.delivery(2)]), tag: 2)
        let batch = try #require(bench.submitted.last?.batch)
        var probe = try #require(bench.published.first?.messages.first)
        probe.fallbackExchanges = []
        bench.confirmNext(.confirmedElsewhere)
        #expect(bench.gate.stopReason(for: batch.requests[0], of: batch) == .held)
        bench.finishNext { _ in .stopped(.held) }
        let installation = PushID.random()
        bench.take(Fixture.job([Fixture.delivery(3, installation: installation), Fixture.delivery(4)], notification: 8), tag: 3)
        #expect(bench.submitted.isEmpty)
        #expect(bench.others.contains { if case .note(.outcomesRefused) = $0 { true } else { false } })

        bench.tick(after: 999)
        #expect(bench.published.isEmpty)
        bench.tick(after: 1)
        #expect(bench.published.map(\.messages) == [[probe]])
        bench.confirmNext(.failed(.nacked))
        #expect(bench.submitted.isEmpty && bench.published.isEmpty)
        bench.tick(after: 999)
        #expect(bench.published.isEmpty)

        bench.obey(.fence(app: Fixture.shop, installation: installation, epochsBelow: 2, at: bench.now))
        bench.tick(after: 1)
        bench.confirmNext()
        #expect(bench.gate.isOpen)
        #expect(bench.submitted.map { $0.batch.requests.map(\.index) } == [[0], [1]])
        #expect(bench.events.map(\.outcome) == [.fenced])
        #expect(bench.others.contains { if case .note(.outcomesTaken(afterMilliseconds: 2000)) = $0 { true } else { false } })
        bench.tick(after: 10_000)
        #expect(!bench.published.flatMap(\.messages).contains(probe), "the dispatcher asks no more")
    }

    @Test("A broker that does not answer is not asked again")
    func asksOnce() throws {
        let bench = try Self.refusedBench { $0.probePause = 100 }
        for _ in 0..<5 { bench.tick(after: 100) }
        #expect(bench.published.count == 1)
        bench.confirmNext(.failed(.nacked))
        bench.tick(after: 100)
        #expect(bench.published.count == 1)
    }

    @Test("The dispatcher decides nothing about new jobs, because that would be an outcome too; after a minute they wait in the broker")
    func decidesNothing() throws {
        let bench = try Self.refusedBench()
        bench.take(Fixture.job([Fixture.delivery(2)], expiresAt: bench.now - 1), tag: 2)
        bench.take(Fixture.job([Fixture.delivery(3)], app: Fixture.unconfigured), tag: 3)
        #expect(bench.published.isEmpty)
        bench.tick(after: 59_999)
        #expect(bench.retries().isEmpty)
        bench.tick(after: 1)
        #expect(bench.retries(after: .thirtySeconds).flatMap(\.deliveries).map(\.id) == [2, 3].map { Fixture.delivery($0).id })
        #expect(bench.retries().map(\.attempt) == [0, 0])
        Self.settleAll(bench)
        #expect(bench.acknowledged.map(\.tag) == [1, 2, 3])
        #expect(bench.core.jobs.isEmpty && bench.core.book.ledger.isEmpty)
    }

    @Test("The dispatcher reports and retries answers that come meanwhile as usual")
    func settlesWhatIsInFlight() throws {
        let bench = try CoreBench()
        for tag in 1...3 as ClosedRange<UInt64> { bench.take(Fixture.job([Fixture.delivery(Int(tag))]), tag: tag) }
        bench.finishNext(200)
        bench.confirmNext(.confirmedElsewhere)
        bench.finishNext(429, "TooManyRequests")
        bench.finishNext(410, "Unregistered")
        #expect(bench.events.map(\.outcome) == [.throttled, .tokenGone])
        Self.settleAll(bench)
        #expect(bench.acknowledged.map(\.tag).sorted() == [1, 2, 3])
        #expect(bench.core.book.refused.isEmpty, "nothing is kept here")
    }

    @Test("If no queue takes them, the dispatcher publishes them again until one does", arguments: [PublishFailure.nacked, .unroutable])
    func everythingIsFull(failure: PublishFailure) throws {
        let bench = try CoreBench { $0.probePause = 5_000 }
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        for _ in 0..<3 {
            bench.confirmNext(.failed(failure))
            #expect(!bench.gate.isOpen && bench.acknowledged.isEmpty)
            bench.tick(after: 250)
            #expect(bench.published.flatMap(\.messages).map(\.fallbackExchanges) == [[bench.topology.waitingOutcomesExchange]])
        }
        bench.confirmNext(.confirmedElsewhere)
        #expect(!bench.gate.isOpen && bench.acknowledged.count == 1)
    }

    @Test("A control stream that comes back meanwhile does not open the gate, and room for outcomes does not while the stream is away")
    func bothMustBeWell() throws {
        let bench = try Self.refusedBench { $0.probePause = 5_000 }
        bench.take(Fixture.job([Fixture.delivery(2)]), tag: 2)
        bench.handle(.controlConnection(isUp: false))
        bench.handle(.controlConnection(isUp: true))
        try bench.returnMarker()
        #expect(!bench.gate.isOpen && bench.submitted.isEmpty)

        bench.handle(.controlConnection(isUp: false))
        bench.tick(after: 5_000)
        bench.confirmNext()
        #expect(bench.core.book.refusal == nil)
        #expect(!bench.gate.isOpen && bench.submitted.isEmpty)
        bench.handle(.controlConnection(isUp: true))
        try bench.returnMarker()
        #expect(bench.gate.isOpen && bench.submitted.count == 1)
    }

    @Test("A full delayed queue and a full dead-letter queue stop nothing")
    func onlyOutcomesStopSending() throws {
        let bench = try CoreBench()
        bench.take(Fixture.message(Array("poison".utf8)))
        #expect(bench.deadLetters.count == 1)
        bench.confirmNext(.failed(.nacked))
        #expect(bench.gate.isOpen && bench.core.book.refusal == nil)
        bench.obey(.hold(id: .random(), scope: .app(Fixture.other), endsAt: nil, at: bench.now))
        bench.take(Fixture.job([Fixture.delivery(1)], app: Fixture.other), tag: 2)
        bench.settleNext { $0.exchange == bench.topology.outcomesExchange ? .confirmed : .failed(.nacked) }
        #expect(bench.gate.isOpen && bench.core.book.refusal == nil)
    }

    @Test("A stop returns unsent jobs and tries no more")
    func stops() throws {
        let bench = try Self.refusedBench()
        bench.take(Fixture.job([Fixture.delivery(2)]), tag: 2)
        bench.handle(.stop)
        #expect(bench.retries(after: .oneSecond).count == 1)
        bench.confirmNext()
        #expect(bench.acknowledged.last?.tag == 2)
        bench.tick(after: 2_000)
        #expect(bench.published.isEmpty && bench.core.isDrained)
    }
}

extension CoreBench {
    fileprivate func take(_ message: ReceivedMessage) { handle(.jobsReceived([message])) }
}
