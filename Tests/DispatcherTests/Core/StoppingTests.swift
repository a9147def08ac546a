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

    @Test("A job that came in company goes on alone: its message would bring the others again")
    func passesOnWhatCameInCompany() throws {
        let bench = try CoreBench()
        bench.handle(
            .jobsReceived(
                Fixture.parcel([Fixture.job([Fixture.delivery(1)], notification: 1), Fixture.job([Fixture.delivery(2)], notification: 2)])))
        bench.finishNext(200)
        bench.confirmNext()
        #expect(bench.acknowledged.map(\.part) == [0])
        bench.handle(.stop)
        bench.finishNext { _ in .notSent(.shuttingDown) }
        #expect(bench.givenBack.isEmpty)
        #expect(bench.retries(after: .oneSecond).map(\.deliveries) == [[Fixture.delivery(2)]])
        bench.confirmNext()
        #expect(bench.acknowledged.map(\.part) == [0, 1])
        #expect(bench.core.isDrained)
    }

    @Test("Newcomers in company go back with all of it")
    func givesBackAParcel() throws {
        let bench = try CoreBench()
        bench.handle(.stop)
        let parcel = Fixture.parcel([Fixture.job([Fixture.delivery(1)]), Fixture.job([Fixture.delivery(2)])])
        bench.handle(.jobsReceived(parcel))
        #expect(bench.givenBack == parcel.map(\.receipt))
    }

    @Test("The rest of a parcel of which something was begun does not go back with it: it goes on alone, also once that is settled")
    func passesOnTheRestOfAParcel() throws {
        let bench = try CoreBench()
        let parcel = Fixture.parcel((1...3).map { Fixture.job([Fixture.delivery($0)], notification: UInt64($0)) })
        bench.handle(.jobsReceived(Array(parcel.prefix(1))))
        bench.finishNext(200)
        bench.confirmNext()
        #expect(bench.acknowledged.map(\.part) == [0])
        bench.handle(.stop)
        let newcomers = Fixture.parcel([Fixture.job([Fixture.delivery(4)])], tag: 2)
        bench.handle(.jobsReceived(Array(parcel.dropFirst()) + newcomers))
        #expect(bench.givenBack == newcomers.map(\.receipt))
        #expect(bench.submitted.isEmpty)
        #expect(bench.retries(after: .oneSecond).flatMap(\.deliveries) == [Fixture.delivery(2), Fixture.delivery(3)])
        bench.confirmNext()
        #expect(bench.acknowledged.map(\.part) == [0, 1, 2])
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
