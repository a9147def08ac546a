import Postgres
import PushModel
import TokenServiceSending

/// A bit in the job marks a delivery that has its outcome, so that an event that comes again changes nothing.
extension OutcomeStore {
    /// A final outcome that counts, and the token that its delivery was for.
    struct End {
        let entry: OutcomeBatch.Entry
        let token: Int64
        /// The environment that the token was registered for when the delivery was made.
        let environment: APNsEnvironment
        /// A replay had reopened it: its receipt is locked, and ends it.
        var isReplayed = false
    }

    /// A batch's outcomes of one job.
    private struct Settled {
        let job: JobID
        /// The entry for each position; -1 if there is none.
        var places = [Int](repeating: -1, count: PushJob.maximumDeliveries)

        /// As PostgreSQL writes `bit(100)`: the first position first.
        var mask: String { String(decoding: places.map { $0 < 0 ? UInt8(ascii: "0") : UInt8(ascii: "1") }, as: UTF8.self) }
    }

    /// - Parameter entries: In ascending order of id, and so job by job.
    /// - Returns: those that had no final outcome before.
    func settle(_ entries: [OutcomeBatch.Entry]) throws -> [End] {
        var settled: [Settled] = []
        var indices: [JobID: Int] = [:]
        var last = 0
        for index in entries.indices {
            let place = DeliveryNames.place(of: entries[index].delivery.id)
            let job = JobID(notification: entries[index].delivery.notification, number: place.job)
            if settled.isEmpty || settled[last].job != job {
                last = indices[job] ?? settled.count
                if last == settled.count {
                    settled.append(Settled(job: job))
                    indices[job] = last
                }
            }
            settled[last].places[place.position] = index
        }
        let rows = try session.execute(
            """
            WITH locked AS (
                SELECT j.notification, j.number, j.settled, j.sandbox, j.members, e.mask::bit(100) AS mask
                FROM unnest(\(settled.map(\.job.notification))::uuid[], \(settled.map(\.job.number))::bigint[], \(settled.map(\.mask))::text[])
                    AS e (notification, number, mask)
                JOIN jobs j ON j.notification = e.notification AND j.number = e.number
                ORDER BY j.notification, j.number FOR NO KEY UPDATE OF j
            ), changed AS (
                UPDATE jobs j SET settled = l.settled | l.mask FROM locked l
                WHERE j.notification = l.notification AND j.number = l.number AND (l.mask & ~l.settled) <> B'0'::bit(100)
            )
            SELECT notification, number, (mask & ~settled)::text AS fresh, sandbox::text AS sandbox, members FROM locked
            """)
        var ends: [End] = []
        ends.reserveCapacity(entries.count)
        for row in rows {
            let (number, fresh): (Int32, String) = (try row["number"], try row["fresh"])
            guard let index = indices[JobID(notification: try row["notification"], number: Int(number))] else { continue }
            let members = Job.members(of: try row["members"])
            let sandbox = Job.positions(in: try row["sandbox"])
            for (position, bit) in fresh.utf8.enumerated() where bit == UInt8(ascii: "1") && position < members.count {
                let place = settled[index].places[position]
                guard place >= 0 else { continue }
                ends.append(
                    End(
                        entry: entries[place], token: members[position],
                        environment: sandbox.contains(position) ? .sandbox : .production))
            }
        }
        return ends
    }

    /// Locks the jobs of these entries: attempts are noted in receipts, and a job is locked before its receipts.
    package func lockJobs(of entries: [OutcomeBatch.Entry]) throws {
        guard !entries.isEmpty else { return }
        let jobs = Set(entries.map { JobID(notification: $0.delivery.notification, number: DeliveryNames.place(of: $0.delivery.id).job) })
        let (notifications, numbers) = (jobs.map(\.notification), jobs.map(\.number))
        try session.execute(
            """
            SELECT FROM unnest(\(notifications)::uuid[], \(numbers)::bigint[]) AS e (notification, number)
            JOIN jobs j ON j.notification = e.notification AND j.number = e.number
            ORDER BY j.notification, j.number FOR NO KEY UPDATE OF j
            """)
    }
}
