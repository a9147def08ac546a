import BenchmarkSupport
import Foundation

/// pgbench inserting one row of a notification per commit: the least that an acceptance has to do.
struct BareCommit {
    let database: Database
    let app: Int
    let devices: Int

    /// The columns that an acceptance fills. Ids are in the order of time, like ours. The row counts as published, so that no relay takes
    /// it.
    private var script: String {
        """
        \\set n random(0, \(devices / 2 - 1))
        INSERT INTO notifications (id, app_id, target_user, lane, push_type, purpose, topic, priority, on_unknown, payload, traceparent,
            accepted_at, expires_at, state, total, pending, jobs, completed_at)
        VALUES ((lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || substr(md5(random()::text), 1, 20))::uuid,
            \(app), 'user-' || :n, 'now', 'alert', 'alert', 'com.example.\(Audience.bulkApp)', 10, 'resend',
                convert_to('\(Audience.payload)', 'UTF8'),
            '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', now(), now() + interval '1 day', 'completed', 2, 0, 1, now());
        """
    }

    /// - Returns: commits per second.
    func rate(_ count: Int, clients: Int) throws -> Double {
        try database.pgbench(
            script.replacingOccurrences(of: "\n    ", with: " ").replacingOccurrences(of: "\nVALUES", with: " VALUES"), transactions: count,
            connections: clients)
    }

    /// One client, one commit after the other.
    /// - Parameter pace: Commits a second, at random moments; nil: without a pause.
    /// - Returns: seconds of each.
    func latencies(_ count: Int, pace: Int? = nil) throws -> [Double] {
        let (file, log) = ("\(database.folder)/commit.sql", "\(database.folder)/commit-log")
        try Data(script.utf8).write(to: URL(filePath: file))
        _ = try Command.run(
            "pgbench",
            ["-n", "-M", "prepared", "-c", "1", "-t", "\(count)", "-l", "--log-prefix", log, "-f", file]
                + (pace.map { ["-R", "\($0)"] } ?? [])
                + [database.url])
        // "client transaction time script epoch microseconds [lag]", time and lag in microseconds: with a pace the time is from when it was
        // due, and the lag how much later it began
        let logs = try FileManager.default.contentsOfDirectory(atPath: database.folder).filter { $0.hasPrefix("commit-log") }
        var latencies: [Double] = []
        for name in logs {
            let path = "\(database.folder)/\(name)"
            for line in try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n") {
                let fields = line.split(separator: " ").compactMap { Double($0) }
                if fields.count == (pace == nil ? 6 : 7) { latencies.append((fields[2] - (pace == nil ? 0 : fields[6])) / 1_000_000) }
            }
            try FileManager.default.removeItem(atPath: path)
        }
        guard latencies.count == count else { throw BenchmarkError("pgbench logged \(latencies.count) of \(count) commits") }
        return latencies
    }
}
