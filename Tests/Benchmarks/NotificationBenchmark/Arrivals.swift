import APNsSimulator
import BenchmarkSupport

/// Goes on reading the simulator's journal file where it stopped the last time.
struct Arrivals {
    private var reader: JournalFileReader
    /// When each device of the small app was pushed to, UNIX seconds, since ``forget()``.
    private(set) var now: [String: Double] = [:]
    /// When the first and the last push of the large app came.
    private(set) var bulk: (first: Double, last: Double)?
    private(set) var bulkCount = 0

    init(journal: String) throws {
        reader = try JournalFileReader(path: journal)
        try read()
        forget()
    }

    mutating func forget() {
        now = [:]
        bulk = nil
        bulkCount = 0
    }

    mutating func read() throws {
        while let entry = try reader.next() {
            guard entry.status == 200 else { throw BenchmarkError("the simulator answered \(entry.status ?? 0) \(entry.reason ?? "")") }
            // Written in whole milliseconds: half of one on average is missing.
            let time = Double(entry.time) / 1000 + 0.0005
            if entry.topic == "com.example.\(Audience.nowApp)" {
                if let token = entry.token, now[token] == nil { now[token] = time }
            } else {
                bulk = (bulk?.first ?? time, time)
                bulkCount += 1
            }
        }
    }
}
