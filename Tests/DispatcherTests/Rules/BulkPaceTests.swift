import Testing

@testable import Dispatcher

@Suite("How many jobs of bulk are worked on at once")
struct BulkPaceTests {
    /// Works on one job at a time, for as many milliseconds as `services` say in turn, and tells of it `delay` later.
    private struct Machine {
        private static let tick: Int64 = 50

        let delay: Int64
        let services: [Int64]
        private(set) var now: Int64 = 0
        private var freeAt: Int64 = 0
        private var atWork: [(job: UInt64, endsAt: Int64)] = []
        private var first = 0

        init(delay: Int64, services: [Int64] = [0], startingAt now: Int64 = 0) {
            self.delay = delay
            self.services = services
            self.now = now
        }

        /// - Returns: the most that were at work together, of at most a hundred.
        mutating func work(_ jobs: Int, _ pace: inout BulkPace) -> Int {
            var most = 0
            let end = first + jobs
            while first < end {
                while pace.room > 0, atWork.count - first < 100 {
                    let number = atWork.count
                    freeAt = max(freeAt, now) + services[number % services.count]
                    atWork.append((UInt64(number), freeAt + delay))
                    pace.begin(UInt64(number), at: now)
                }
                most = max(most, atWork.count - first)
                let next = atWork[first]
                if next.endsAt > now + Self.tick {
                    now += Self.tick
                    pace.forgetSlow(at: now)
                } else {
                    first += 1
                    now = max(now, next.endsAt)
                    pace.settled(next.job, at: now)
                }
            }
            return most
        }
    }

    @Test("Where jobs do not wait for each other, all that the broker gives are", arguments: [5, 60, 400] as [Int64])
    func takesEveryJob(delay: Int64) {
        var pace = BulkPace()
        var machine = Machine(delay: delay)
        _ = machine.work(3_000, &pace)
        let most = machine.work(1_000, &pace)
        #expect(most == 100)
    }

    @Test("Where they do, few are, and the machine hardly ever has nothing to do")
    func keepsFew() {
        var pace = BulkPace()
        var machine = Machine(delay: 10, services: [2])
        _ = machine.work(3_000, &pace)
        let begin = machine.now
        let most = machine.work(3_000, &pace)
        // Six would keep it busy; a hundred would each need two hundred milliseconds.
        #expect(most <= 12)
        #expect(machine.now - begin < 3_000 * 2 * 2)
    }

    @Test(
        "The machine hardly ever has nothing to do, however long its answers take and of whatever size its jobs are",
        arguments: [1, 10, 20, 60, 100] as [Int64])
    func keepsTheMachineBusy(delay: Int64) {
        var pace = BulkPace()
        var machine = Machine(delay: delay, services: [1, 1, 1, 5])
        _ = machine.work(20_000, &pace)
        let begin = machine.now
        // A minute and more: also while it measures anew.
        _ = machine.work(30_000, &pace)
        #expect((machine.now - begin) * 3 <= 30_000 * 2 * 4)
    }

    @Test("What waits for something of its own takes no room from others")
    func forgetsTheSlow() {
        var pace = BulkPace()
        let limit = pace.limit
        for job in 0..<UInt64(limit) { pace.begin(job, at: 1_000) }
        #expect(pace.room == 0)
        pace.forgetSlow(at: 1_250)
        #expect(pace.room == 0)
        pace.forgetSlow(at: 1_251)
        #expect(pace.room == limit)
        // It is over at last, and tells nothing.
        for _ in 0..<100 { pace.settled(0, at: 90_000) }
        #expect(pace.room == limit)
        #expect(pace.limit == limit)
    }

    @Test("After a clock was set back by a day, it learns as before")
    func survivesAClockThatIsSetBack() {
        var pace = BulkPace()
        var before = Machine(delay: 60, startingAt: 86_400_000)
        _ = before.work(10, &pace)
        var after = Machine(delay: 60)
        _ = after.work(3_000, &pace)
        let most = after.work(1_000, &pace)
        #expect(most == 100)
    }

    @Test("What a lost connection brought is forgotten; a clock that is set back holds nothing up")
    func startsAnew() {
        var pace = BulkPace()
        let limit = pace.limit
        for job in 0..<UInt64(limit) { pace.begin(job, at: 1_000) }
        pace.forgetAll()
        #expect(pace.room == limit)
        for job in 0..<UInt64(limit) { pace.begin(job, at: 1_000) }
        pace.forgetSlow(at: 10)
        #expect(pace.room == limit)
    }
}
