import PushModel
import StrictJSON
import Testing

@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceRegistry
@testable import TokenServiceSending

@Suite("A token service whose clock is set", .timeLimit(.minutes(2)))
struct ProcessClockTests {
    @Test("Ids that are made at the same moment differ, and an id says when it was made", arguments: ClockStep.all)
    func ids(step: Int64) {
        let moments = [ClockStep.moment, ClockStep.moment + step]
        let ids = moments.flatMap { moment in (0..<2_000).map { _ in PushID.timeOrdered(milliseconds: moment) } }
        #expect(Set(ids).count == 4_000)
        #expect(Set(ids.map(\.milliseconds)) == Set(moments))
        for moment in [.min, -1, 0, .max] as [Int64] { #expect(PushID.timeOrdered(milliseconds: moment).milliseconds != nil) }
    }

    @Test("A webhook is tried again within a day, whatever date its receiver names", arguments: ClockStep.all)
    func retryAfter(step: Int64) {
        // A minute after `moment`: RFC 9110 section 5.6.7.
        let text = "Fri, 15 Jan 2027 08:01:00 GMT"
        let wait = RetryAfter.duration(text, now: ClockStep.moment + step)
        #expect(wait == (step > 0 ? nil : step < -24 * ClockStep.hour ? .seconds(86_400) : .seconds(60 - step / 1000)))
    }

    @Test("The jobs that a process remembers are few, and the latest is among them", arguments: ClockStep.all)
    func waitingJobs(step: Int64) {
        var jobs = WaitingJobs()
        for number in 0..<6_000 as Range<Int64> {
            let moment = ClockStep.moment + number * 1000 + (2_000..<4_000 ~= number ? step : 0)
            let id = JobID(notification: PushID(high: 7, low: UInt64(number)), number: 0)
            jobs.append(.init(id: id, publishedAt: moment, expiresAt: moment + ClockStep.hour))
        }
        #expect(jobs.jobs.count <= WaitingJobs.maximumCount)
        #expect(jobs.jobs.last?.id.notification == PushID(high: 7, low: 5_999))
        jobs.forget([JobID(notification: PushID(high: 7, low: 5_999), number: 0)])
        #expect(jobs.oldest == nil)
    }

    @Test(
        "A hold is published again when a day has passed, also one that was published by a clock that was ahead", arguments: ClockStep.all)
    func holds(step: Int64) throws {
        let scope = try #require(HoldScope(app: nil, lane: nil, notification: nil))
        var hold = Hold(
            id: .random(), scope: scope, reason: "", setAt: ClockStep.moment, setBy: "", state: .live, publishedAt: ClockStep.moment)
        #expect(hold.isDue(now: ClockStep.moment + step) == (abs(step) > 24 * ClockStep.hour))
        hold.state = .expired
        #expect(!hold.isDue(now: ClockStep.moment + step))
    }

    @Test(
        "A hold that is not published is due two seconds later, also one that was set by a clock that was ahead", arguments: ClockStep.all)
    func unpublishedHolds(step: Int64) throws {
        let scope = try #require(HoldScope(app: nil, lane: nil, notification: nil))
        var hold = Hold(id: .random(), scope: scope, reason: "", setAt: ClockStep.moment, setBy: "", state: .live)
        #expect(!hold.isDue(now: ClockStep.moment + 1_000))
        #expect(hold.isDue(now: ClockStep.moment + 10_000 + step))
        (hold.state, hold.lifting) = (.lifted, Hold.Lifting(at: ClockStep.moment, by: ""))
        #expect(!hold.isDue(now: ClockStep.moment + 1_000))
        #expect(hold.isDue(now: ClockStep.moment + 10_000 + step))
    }

    @Test("No update waits longer than its window because another process's clock was ahead", arguments: ClockStep.all)
    func windows(step: Int64) {
        var queue = UpdateQueue()
        let second = Self.waitBehind(&queue, openedAt: ClockStep.moment + step, window: 60_000)
        #expect(queue.turn(of: second, isReady: true, window: 60_000, now: ClockStep.moment + 61_000) == .send)
    }

    @Test("Clocks that differ by a second shorten no window") func almostRight() {
        var queue = UpdateQueue()
        let second = Self.waitBehind(&queue, openedAt: ClockStep.moment + 1_000, window: 1_000)
        #expect(queue.turn(of: second, isReady: true, window: 1_000, now: ClockStep.moment) == .wait(until: ClockStep.moment + 2_000))
    }

    /// - Returns: a notification that waits; the one before it was sent, and is settled.
    private static func waitBehind(_ queue: inout UpdateQueue, openedAt moment: Int64, window: Int64) -> PushID {
        var superseded: [PushID] = []
        let (first, second) = (PushID(high: 7, low: 1), PushID(high: 7, low: 2))
        _ = queue.accept(first, timestamp: 1, superseded: &superseded)
        queue.begin(first, window: window, now: moment)
        _ = queue.ended(first)
        _ = queue.accept(second, timestamp: 2, superseded: &superseded)
        return second
    }

    @Test("No broadcast waits longer than a second because another process's clock was ahead", arguments: ClockStep.all)
    func broadcasts(step: Int64) {
        var channel = UpdateTarget(key: UpdateTarget.Key(app: 1, owner: .channel, id: "game"))
        var superseded: [PushID] = []
        let (first, second) = (PushID(high: 7, low: 1), PushID(high: 7, low: 2))
        let change = ActivityChange(subject: .channel("game"), event: .update, timestamp: ClockStep.moment / 1000)
        _ = channel.accept(change, as: first, now: ClockStep.moment + step, superseded: &superseded)
        channel.begin(first, now: ClockStep.moment + step)
        _ = channel.queue.ended(first)
        _ = channel.accept(change, as: second, now: ClockStep.moment + 2_000, superseded: &superseded)
        #expect(channel.turn(of: second, now: ClockStep.moment + 3_000) == .send)
    }

    @Test("A hold ends by the clock of the process that publishes, until the database is read again", arguments: ClockStep.all)
    func holdCache(step: Int64) throws {
        let cache = HoldCache()
        let scope = try #require(HoldScope(app: nil, lane: .now, notification: nil))
        let hold = Hold(
            id: .random(), scope: scope, reason: "", setAt: ClockStep.moment, setBy: "", endsAt: ClockStep.moment + 1_800_000,
            state: .live)
        cache.add(hold)
        #expect(cache.holds(app: 1, lane: .now, notification: nil, now: ClockStep.moment + step) == (step < 0))
        var over = hold
        over.state = .expired
        cache.replace(with: [over], readAfter: cache.added)
        #expect(!cache.holds(app: 1, lane: .now, notification: nil, now: ClockStep.moment + step))
    }

    @Test("A device credential is good by the clock of the process that checks it, for a day and an hour at most")
    func credentials() async throws {
        let keys = try #require(DeviceCredentialKeys(RunningService.deviceKey))
        try await RunningService.withDevices { running, shop in
            func device(_ hours: Int64) throws -> APITestClient {
                // Good for half an hour by the clock of the process that made it.
                let credential = DeviceCredentialClaims(
                    app: try #require(AppSlug("shop")), installation: installation(1), user: "ada", ownerEpoch: 0,
                    issuedAt: UnixTime.milliseconds() * 1000, expiresAt: UnixTime.milliseconds() + hours * ClockStep.hour + 1_800_000)
                return shop.with(key: keys.text(credential))
            }
            for (step, status) in [(-96, 401), (-1, 401), (1, 201), (96, 401), (8760, 401)] as [(Int64, Int)] {
                let answer = try await device(step).register(installation(1), user: "ada", token: token(1))
                #expect(answer.status == status, "\(step) hours: \(answer.json)")
            }
            // The service takes a sign-out with any credential of its own, however far ahead its end lies.
            let out = try await device(8760).post("/v1/apps/shop/installations/\(installation(1))/logout")
            #expect(out.status == 200, "\(out.json)")
        }
    }
}
