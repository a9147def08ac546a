import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("What is held back for the sake of others")
struct SharingTests {
    private func job(
        _ deliveries: [PushJob.Delivery], notification: UInt64, collapse: String? = nil, acceptedAt: Int64 = Fixture.start
    ) -> PushJob {
        var job = Fixture.job(deliveries, notification: notification)
        job.collapseID = collapse
        job.acceptedAt = acceptedAt
        return job
    }

    @Test("A throttled device gets nothing until its wait is over, and no other device waits with it")
    func sparesTheDevice() throws {
        let bench = try CoreBench()
        bench.take(job([Fixture.delivery(1)], notification: 1))
        bench.finishNext(429, "TooManyRequests", retryAfter: .seconds(100))
        let until = try #require(bench.events.first?.deliveries.first?.retryAt)
        bench.take(job([Fixture.delivery(1), Fixture.delivery(2)], notification: 2), tag: 2)
        #expect(bench.submitted.map { $0.batch.requests.map(\.index) } == [[1]])
        let waiting = try #require(bench.retries().last)
        #expect(waiting.deliveries.map(\.id) == [Fixture.delivery(1).id])
        #expect(waiting.attempt == 0, "nothing was tried")
        let told = try #require(bench.events.last?.deliveries.first)
        #expect(bench.events.last?.outcome == .throttled && bench.events.last?.isFinal == false)
        #expect(told.reason == "device_throttled")
        #expect(told.retryAt.map { $0 >= until } == true)
        bench.finishNext(200)
        bench.now = until
        bench.take(job([Fixture.delivery(1)], notification: 3), tag: 3)
        #expect(bench.submitted.map { $0.batch.requests.map(\.index) } == [[0]])
    }

    @Test("A clock that is set back makes no device wait for longer than any may")
    func doesNotWaitForTheClock() throws {
        let bench = try CoreBench()
        bench.take(job([Fixture.delivery(1)], notification: 1))
        bench.finishNext(429, "TooManyRequests", retryAfter: .seconds(100))
        bench.now -= 3_600_000
        bench.take(job([Fixture.delivery(1)], notification: 2), tag: 2)
        #expect(bench.submitted.map { $0.batch.requests.map(\.index) } == [[0]])
        // Throttled again, by this clock.
        bench.finishNext(429, "TooManyRequests", retryAfter: .seconds(100))
        bench.take(job([Fixture.delivery(1)], notification: 3), tag: 3)
        #expect(bench.submitted.isEmpty)
        bench.now += 1_000_000
        bench.take(job([Fixture.delivery(1)], notification: 4), tag: 4)
        #expect(bench.submitted.map { $0.batch.requests.map(\.index) } == [[0]])
    }

    @Test("Of what waits for a throttled device, only the newest of a collapse id is sent")
    func keepsTheNewest() throws {
        let bench = try CoreBench()
        let device = Fixture.delivery(1)
        bench.take(job([device], notification: 1, collapse: "score", acceptedAt: Fixture.start))
        bench.finishNext(429, "TooManyRequests", retryAfter: .seconds(100))
        bench.take(job([device], notification: 2, collapse: "score", acceptedAt: Fixture.start + 10), tag: 2)
        bench.take(job([device], notification: 3, collapse: "other", acceptedAt: Fixture.start + 5), tag: 3)
        bench.take(job([device], notification: 4, acceptedAt: Fixture.start + 1), tag: 4)
        #expect(bench.submitted.isEmpty)
        #expect(bench.retries().count == 4)
        bench.now += 120_000
        // They come back in any order.
        for (tag, back) in bench.retries().reversed().enumerated() { bench.take(back, tag: UInt64(10 + tag)) }
        let sent = bench.submitted.map(\.batch.collapseID)
        #expect(Set(sent) == ["score", "other", nil] && sent.count == 3)
        let superseded = try #require(bench.events.last { $0.outcome == .cancelled })
        #expect(superseded.isFinal)
        #expect(superseded.deliveries.map(\.reason) == ["superseded"])
        #expect(superseded.deliveries.map(\.notification) == [PushID(high: 0xa, low: 1)])
    }

    @Test("What waits for a device ends with its notification")
    func endsWithTheNotification() throws {
        let bench = try CoreBench()
        bench.take(job([Fixture.delivery(1)], notification: 1))
        bench.finishNext(429, "TooManyRequests", retryAfter: .seconds(600))
        var short = job([Fixture.delivery(1)], notification: 2)
        short.expiresAt = bench.now + 500
        bench.take(short, tag: 2)
        #expect(bench.submitted.isEmpty)
        #expect(bench.events.last?.outcome == .expired)
    }

    @Test("Throttled devices are forgotten, and their number is bounded")
    func isBounded() {
        var devices = ThrottledDevices()
        func device(_ number: Int) -> ThrottledDevices.Device {
            ThrottledDevices.Device(app: UInt16(number >> 16), environment: .sandbox, token: Fixture.token(number & 0xffff))
        }
        let age = ThrottledDevices.Age(acceptedAt: 0, notification: PushID(high: 0, low: 0))
        for number in 0..<100_100 { devices.throttle(device(number), until: 1000, collapseID: nil, age: age) }
        #expect(devices.count == 100_000)
        #expect(devices.judge(device(100_050), collapseID: nil, age: age, now: 0) == .send)
        devices.forget(now: 1000)
        #expect(!devices.isEmpty)
        devices.forget(now: 1000 + 20 * 60_000)
        #expect(devices.isEmpty)
    }

    @Test("An app whose pool is slow leaves half of the lane to the others")
    func leavesRoom() throws {
        let bench = try CoreBench { $0.prefetch = [.now: 8, .soon: 8, .bulk: 8] }
        func take(_ tag: UInt64, _ app: AppSlug, _ lane: Lane = .now) {
            bench.take(Fixture.job([Fixture.delivery(Int(tag))], app: app, notification: tag, lane: lane), tag: tag)
        }
        for tag in 1...4 { take(UInt64(tag), Fixture.shop) }
        bench.tick()
        take(5, Fixture.shop)
        #expect(bench.submitted.count == 5, "a full share alone is no fault: the pool may be fast")
        bench.tick(after: 2_000)
        take(6, Fixture.shop)
        #expect(bench.submitted.count == 5)
        #expect(bench.retries().map(\.attempt) == [0])
        take(7, Fixture.other)
        take(8, Fixture.shop, .bulk)
        #expect(bench.submitted.count == 7, "neither other apps nor other lanes are touched")
        // The pool wakes up: all is as before.
        while !bench.submitted.isEmpty { bench.finishNext(200) }
        bench.tick()
        take(9, Fixture.shop)
        #expect(bench.submitted.count == 1)
    }

    private func room(_ lane: Lane, _ bench: CoreBench) -> Int {
        bench.core.scheduler.room(lane, atWork: bench.core.book.ledger.deliveriesAtWork)
    }

    @Test("Bulk begins no more deliveries than it may have at work, until outcomes are confirmed or a pool is slow") func budget() throws {
        let bench = try CoreBench { $0.deliveries[.bulk] = 3 }
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2)], notification: 1, lane: .bulk), tag: 1)
        #expect(room(.bulk, bench) == 1 && room(.now, bench) == 20_000)
        bench.take(Fixture.job([Fixture.delivery(3)], notification: 2, lane: .bulk), tag: 2)
        #expect(room(.bulk, bench) == 0)
        bench.finishNext(200)
        #expect(room(.bulk, bench) == 0, "its outcomes are not confirmed")
        bench.confirmNext()
        #expect(room(.bulk, bench) == 2)
        bench.tick(after: 2_000)
        #expect(room(.bulk, bench) == 3, "what a slow pool has takes no room")
        bench.handle(.jobsConnection(isUp: false))
        bench.tick()
        #expect(room(.bulk, bench) == 3)
    }

    @Test("An app with half of the deliveries of a lane, in a slow pool, leaves the rest to the others") func leavesDeliveries() throws {
        let bench = try CoreBench { $0.deliveries[.bulk] = 4 }
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2)], notification: 1, lane: .bulk), tag: 1)
        bench.tick(after: 2_000)
        bench.take(Fixture.job([Fixture.delivery(3)], notification: 2, lane: .bulk), tag: 2)
        #expect(bench.submitted.count == 1 && bench.retries().map(\.attempt) == [0])
        bench.take(Fixture.job([Fixture.delivery(4)], app: Fixture.other, notification: 3, lane: .bulk), tag: 3)
        #expect(bench.submitted.count == 2)
    }

    @Test("A paused pool costs the others nothing: what it gives back leaves the process at once")
    func pausedPools() throws {
        let bench = try CoreBench { $0.prefetch = [.now: 4, .soon: 4, .bulk: 4] }
        for reason in [NotSentReason.poolPaused, .unavailable, .notConnected] {
            bench.take(Fixture.job([Fixture.delivery(1)], notification: 1))
            bench.finishNext { _ in .notSent(reason) }
            #expect(bench.core.jobs.isEmpty)
            #expect(bench.retries().count == 1)
            #expect(bench.retries().first?.attempt == 0, "none of them uses up an attempt")
            while !bench.published.isEmpty { bench.confirmNext() }
        }
        #expect(bench.acknowledged.count == 3)
    }
}
