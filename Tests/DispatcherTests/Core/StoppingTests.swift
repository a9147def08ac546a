import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("A graceful stop")
struct StoppingTests {
    @Test("What is in flight is finished, confirmed and acknowledged; newcomers go back")
    func drains() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.handle(.stop)
        #expect(bench.others.contains { if case .stopTaking = $0 { true } else { false } })
        #expect(bench.others.contains { if case .shutDownPools = $0 { true } else { false } })
        bench.take(Fixture.job([Fixture.delivery(2)]), tag: 2)
        #expect(bench.givenBack.map(\.tag) == [2])
        #expect(!bench.core.isDrained)
        bench.finishNext(200)
        #expect(!bench.core.isDrained)
        bench.confirmNext()
        #expect(bench.acknowledged.map(\.tag) == [1])
        #expect(bench.core.isDrained)
    }

    @Test("A job of which nothing left goes back whole")
    func givesBackUntouched() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2, environment: .sandbox)]))
        bench.handle(.stop)
        bench.finishNext { _ in .notSent(.shuttingDown) }
        #expect(bench.givenBack.isEmpty, "its other half is still in a pool")
        bench.finishNext { _ in .notSent(.shuttingDown) }
        #expect(bench.givenBack.map(\.tag) == [1])
        #expect(bench.published.isEmpty)
        #expect(bench.core.isDrained)
    }

    @Test("Of a job that was sent in part, only the rest goes on, as a job of its own")
    func passesOnTheRest() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2)]))
        bench.handle(.stop)
        bench.finishNext { $0.index == 0 ? .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil) : .notSent(.shuttingDown) }
        #expect(bench.givenBack.isEmpty)
        #expect(bench.retries(after: .oneSecond).map(\.deliveries) == [[Fixture.delivery(2)]])
        #expect(bench.retries().map(\.attempt) == [0])
        bench.confirmNext()
        #expect(bench.acknowledged.map(\.tag) == [1])
        #expect(bench.core.isDrained)
    }

    @Test("Jobs that wait for the control stream go back at once")
    func givesBackParked() throws {
        let bench = try CoreBench()
        bench.handle(.controlConnection(isUp: false))
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.handle(.stop)
        #expect(bench.givenBack.map(\.tag) == [1])
        #expect(bench.core.isDrained)
    }
}
