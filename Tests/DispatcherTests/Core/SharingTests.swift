import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("Limits that protect other apps and devices")
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
        let delayed = try #require(bench.events.last?.deliveries.first)
        #expect(bench.events.last?.outcome == .throttled && bench.events.last?.isFinal == false)
        #expect(delayed.reason == "device_throttled")
        #expect(delayed.retryAt.map { $0 >= until } == true)
        bench.finishNext(200)
        bench.now = until
        bench.take(job([Fixture.delivery(1)], notification: 3), tag: 3)
        #expect(bench.submitted.map { $0.batch.requests.map(\.index) } == [[0]])
    }

    @Test("A clock that is set back makes no device wait longer than the maximum")
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

    @Test("Of the pushes that wait for a throttled device, only the newest of a collapse id is sent")
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

    @Test("A push that waits for a device ends with its notification")
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

    @Test("The collapse ids of throttled devices are bounded together: beyond, nothing is taken for superseded")
    func remembersBounded() {
        var devices = ThrottledDevices()
        func device(_ number: Int) -> ThrottledDevices.Device {
            ThrottledDevices.Device(app: 0, environment: .sandbox, token: Fixture.token(number))
        }
        func age(_ moment: Int64) -> ThrottledDevices.Age {
            ThrottledDevices.Age(acceptedAt: moment, notification: PushID(high: 0, low: 0))
        }
        // 64 of each device: 307,200.
        for number in 0..<4_800 {
            for id in 0..<64 { devices.throttle(device(number), until: 1_000, collapseID: "\(id)", age: age(2)) }
        }
        #expect(devices.judge(device(0), collapseID: "63", age: age(1), now: 0) == .superseded)
        #expect(devices.judge(device(4_799), collapseID: "63", age: age(1), now: 0) == .wait(until: 1_000))
        devices.forget(now: 1_000 + 20 * 60_000)
        devices.throttle(device(4_799), until: 2_000_000, collapseID: "63", age: age(2))
        #expect(devices.judge(device(4_799), collapseID: "63", age: age(1), now: 1_999_999) == .superseded)
    }

    private func take(_ bench: CoreBench, _ tag: UInt64, _ app: AppSlug = Fixture.shop, _ lane: Lane = .bulk, deliveries: Int = 1) {
        let made = (0..<deliveries).map { Fixture.delivery(Int(tag) * 100 + $0) }
        bench.take(Fixture.job(made, app: app, notification: tag, lane: lane), tag: tag)
    }

    @Test("An app has as much of a lane's messages at work as is free; its others wait, and a slow pool's wait in a delayed queue")
    func leavesMessages() throws {
        let bench = try CoreBench { $0.prefetch = [.now: 8, .soon: 8, .bulk: 8] }
        for tag in 1...6 { take(bench, UInt64(tag)) }
        #expect(bench.submitted.count == 4)
        bench.tick()
        take(bench, 7, Fixture.other)
        #expect(bench.submitted.count == 5 && bench.retries().isEmpty, "waiting jobs may move on in a moment, because the pool may be fast")
        bench.tick(after: 2_000)
        take(bench, 8)
        #expect(bench.submitted.count == 5)
        #expect(bench.retries().map(\.attempt) == [0, 0, 0])
        while !bench.published.isEmpty { bench.confirmNext() }
        take(bench, 9, Fixture.other)
        take(bench, 10, Fixture.shop, .now)
        #expect(bench.submitted.count == 7, "neither other apps nor other lanes are touched")
        // The pool works again, and everything is as before.
        while !bench.submitted.isEmpty { bench.finishNext(200) }
        while !bench.published.isEmpty { bench.confirmNext() }
        bench.tick()
        take(bench, 11)
        #expect(bench.submitted.count == 1)
    }

    @Test("Jobs that wait for the control stream do not make their app slow, neither meanwhile nor afterwards") func uncertainStream()
        throws
    {
        let bench = try CoreBench { $0.prefetch = [.now: 8, .soon: 8, .bulk: 8] }
        for tag in 1...6 { take(bench, UInt64(tag)) }
        bench.handle(.controlConnection(isUp: false))
        while !bench.submitted.isEmpty { bench.finishNext { _ in .stopped(.held) } }
        bench.tick(after: 2_500)
        take(bench, 7)
        #expect(bench.core.jobs.count == 4, "the app's bound holds")
        try bench.catchUp()
        bench.tick()
        take(bench, 8)
        #expect(bench.submitted.count == 4 && bench.retries().isEmpty)
        bench.tick(after: 2_000)
        take(bench, 9)
        #expect(!bench.retries().isEmpty, "now the pool is slow")
    }

    @Test("An app has as many of a lane's deliveries at work as are free, until outcomes are confirmed") func leavesDeliveries() throws {
        let bench = try CoreBench { $0.deliveries[.bulk] = 6 }
        take(bench, 1, deliveries: 2)
        take(bench, 2, deliveries: 1)
        #expect(bench.submitted.count == 2)
        take(bench, 3)
        #expect(bench.submitted.count == 2, "it has three, and three are free")
        for tag in 4...6 { take(bench, UInt64(tag), Fixture.other) }
        #expect(bench.submitted.count == 4, "the other app has two, and one is free")
        bench.finishNext(200)
        #expect(bench.submitted.count == 3, "its outcomes are not confirmed")
        bench.confirmNext()
        #expect(bench.submitted.count == 4 && bench.submitted.last?.batch.requests.map(\.id) == [Fixture.delivery(300).id])
        bench.loseJobs()
        #expect(bench.core.book.ledger.work[.bulk] == WorkLoad.Amount())
        take(bench, 7)
        #expect(bench.submitted.count == 5)
    }

    @Test("A paused pool costs the others nothing, because its returned jobs leave the process at once")
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
