import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("A graceful stop")
struct StoppingTests {
    @Test("A stop finishes, confirms and acknowledges deliveries in flight; new jobs go back")
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

    @Test("A job that was not begun goes back whole")
    func givesBackUntouched() throws {
        let bench = try CoreBench { $0.deliveries[.bulk] = 1 }
        bench.take(Fixture.job([Fixture.delivery(1)], lane: .bulk))
        bench.take(Fixture.job([Fixture.delivery(2)], lane: .bulk), tag: 2)
        #expect(bench.submitted.count == 1)
        bench.handle(.stop)
        #expect(bench.givenBack.map(\.tag) == [2])
    }

    @Test("The unsent rest of a partly sent job goes on as its own job")
    func passesOnTheRest() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2)]))
        bench.handle(.stop)
        bench.finishNext { $0.index == 0 ? .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil) : .notSent(.shuttingDown) }
        #expect(bench.retries(after: .oneSecond).map(\.deliveries) == [[Fixture.delivery(2)]])
        #expect(bench.retries().map(\.attempt) == [0])
        bench.confirmNext()
        #expect(bench.acknowledged.map(\.tag) == [1])
        #expect(bench.core.isDrained)
    }

    @Test("Jobs that wait for the control stream go on in another dispatcher")
    func passesOnWhatWaits() throws {
        let bench = try CoreBench()
        bench.handle(.controlConnection(isUp: false))
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.handle(.stop)
        #expect(bench.retries(after: .oneSecond).map(\.attempt) == [0])
        bench.confirmNext()
        #expect(bench.acknowledged.map(\.tag) == [1])
        #expect(bench.core.isDrained)
    }

    @Test("A stop waits for no heartbeat that the broker has not answered")
    func leavesHeartbeats() throws {
        let bench = try CoreBench { $0.heartbeatInterval = 200 }
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        bench.confirmNext()
        bench.tick(after: 300)
        bench.handle(.stop)
        #expect(bench.published.map { $0.messages.map(\.routingKey) } == [[bench.topology.heartbeatQueue]])
        #expect(bench.core.isDrained)
    }

    @Test("For a job that the broker delivers again, the dispatcher reports sent deliveries and retries nothing")
    func leavesRetriesToTheOtherCopy() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2), Fixture.delivery(3)]))
        bench.loseJobs()
        bench.finishNext { request in
            switch request.index {
            case 0: .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil)
            case 1: .response(status: 500, reason: "InternalServerError", timestamp: nil, retryAfter: nil)
            default: .notSent(.notConnected)
            }
        }
        #expect(bench.retries().isEmpty)
        #expect(bench.events.map(\.outcome) == [.accepted])
        #expect(bench.core.jobs.isEmpty)
    }
}
