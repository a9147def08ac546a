import PushModel
import Testing

@testable import TokenServiceSending

@Suite("Which jobs a process remembers to see how long a lane's jobs wait")
struct WaitingJobsTests {
    private static func id(_ number: Int) -> JobID { JobID(notification: PushID(high: 7, low: UInt64(number)), number: 0) }

    /// One job in each `spacing` milliseconds; each expires an hour after it was published.
    private static func jobs(_ count: Int, every spacing: Int64) -> WaitingJobs {
        var jobs = WaitingJobs()
        for number in 0..<count {
            let moment = Int64(number) * spacing
            jobs.append(.init(id: id(number), publishedAt: moment, expiresAt: moment + 3_600_000))
        }
        return jobs
    }

    @Test("One job in a second and the latest are remembered") func oneInASecond() {
        let jobs = Self.jobs(35, every: 100)
        #expect(jobs.jobs.map(\.publishedAt) == [0, 1000, 2000, 3000, 3400])
    }

    @Test("A remembered job stands for the first expiry among those that are not") func firstExpiry() {
        var jobs = WaitingJobs()
        for (number, expiresAt) in [(0, 9000), (1, 5000), (2, 7000), (3, 8000)] as [(Int, Int64)] {
            jobs.append(.init(id: Self.id(number), publishedAt: Int64(number), expiresAt: expiresAt))
        }
        #expect(jobs.ids == [Self.id(0), Self.id(3)])
        #expect(jobs.firstExpiry == 5000)
    }

    @Test("A job that a dispatcher has worked on shows that all earlier ones are taken") func takenInOrder() {
        var jobs = Self.jobs(10, every: 1000)
        jobs.forget([Self.id(4), Self.id(1)])
        #expect(jobs.oldest?.id == Self.id(5))
        jobs.forget([])
        #expect(jobs.jobs.count == 5)
        jobs.forget([Self.id(9)])
        #expect(jobs.oldest == nil && jobs.firstExpiry == nil)
    }

    @Test("Earlier jobs of other processes come first, and later ones not at all") func earlierOnes() {
        var jobs = WaitingJobs()
        jobs.append(.init(id: Self.id(0), publishedAt: 50_000, expiresAt: 60_000))
        jobs.prepend([10_000, 20_000, 70_000].map { .init(id: Self.id(Int($0)), publishedAt: $0, expiresAt: $0 + 1) })
        #expect(jobs.jobs.map(\.publishedAt) == [10_000, 20_000, 50_000])
    }

    @Test("A wait of days takes bounded memory, and keeps the oldest, the latest and the first expiry") func daysOfWaiting() {
        var jobs = Self.jobs(100_000, every: 1000)
        #expect(jobs.jobs.count <= WaitingJobs.maximumCount)
        #expect(jobs.oldest?.id == Self.id(0))
        #expect(jobs.jobs.last?.id == Self.id(99_999))
        #expect(jobs.firstExpiry == 3_600_000)
        jobs.forget([Self.id(0)])
        // No job that was forgotten had a later expiry than the next that is left.
        #expect((jobs.firstExpiry ?? 0) <= (jobs.oldest?.expiresAt ?? 0))
    }
}
