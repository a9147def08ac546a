import PushModel

/// Counts the open parts of each job before it may be acknowledged: its own work, and every message that carries a part of its result.
///
/// It also knows the work load: jobs that are not settled.
///
/// A job begins with one open part (the work). Each outcome, retry or dead-letter message that covers a part of it adds one, each
/// confirmation takes one off; at zero, and only there, its tag is handed out, once. This is promise 1 (docs/promises.md).
struct SettlementLedger<Tag> {
    typealias JobNumber = UInt64

    private struct Entry {
        let tag: Tag
        /// The lane of its queue.
        let lane: Lane
        var owed = 1
        /// Nil: it is not counted in the work load.
        var appLane: AppLaneIndex?
        var deliveries = 0
        /// The job's own work is done.
        var isDecided = false
    }

    private var entries: [JobNumber: Entry] = [:]
    private var lastNumber: JobNumber = 0
    /// Receipts of jobs without open parts, in the order in which they became so.
    private var settled = Lanes([Tag]())
    private var settledCount = 0

    private(set) var work = WorkLoad()

    var isEmpty: Bool { entries.isEmpty && settledCount == 0 }
    func contains(_ job: JobNumber) -> Bool { entries[job] != nil }
    func isOf(_ lane: Lane, _ job: JobNumber) -> Bool { entries[job]?.lane == lane }

    mutating func enter(_ tag: Tag, of lane: Lane) -> JobNumber {
        lastNumber += 1
        entries[lastNumber] = Entry(tag: tag, lane: lane)
        return lastNumber
    }

    /// The job was read.
    mutating func begin(_ job: JobNumber, of appLane: AppLaneIndex, deliveries: Int) {
        guard let place = entries.index(forKey: job) else { return }
        entries.values[place].appLane = appLane
        entries.values[place].deliveries = deliveries
        work.began(appLane, deliveries: deliveries)
    }

    /// Each look-up hashes, and this runs several times for each job: hence places.
    private typealias Place = Dictionary<JobNumber, Entry>.Index

    private mutating func remove(_ place: Place) -> Entry {
        release(place)
        return entries.remove(at: place).value
    }

    /// The job no longer counts in the work load.
    private mutating func release(_ place: Place) {
        let entry = entries.values[place]
        guard let appLane = entry.appLane else { return }
        entries.values[place].appLane = nil
        work.settled(appLane, deliveries: entry.deliveries)
    }

    /// Every delivery of the job is decided.
    mutating func finish(_ job: JobNumber) {
        guard let place = entries.index(forKey: job) else { return }
        entries.values[place].isDecided = true
        pay(place)
    }

    /// The job waits for a queue that does not answer: if nothing else is left to do, it takes no other job's place.
    mutating func isLate(_ job: JobNumber) {
        if let place = entries.index(forKey: job), entries.values[place].isDecided { release(place) }
    }

    /// A message that covers a part of this job is about to be published.
    mutating func owe(_ job: JobNumber) {
        entries[job]?.owed += 1
    }

    /// One open part of the job is done: its work, or one message that the broker confirmed.
    mutating func pay(_ job: JobNumber) {
        if let place = entries.index(forKey: job) { pay(place) }
    }

    private mutating func pay(_ place: Place) {
        entries.values[place].owed -= 1
        guard entries.values[place].owed == 0 else { return }
        let entry = remove(place)
        settled[entry.lane].append(entry.tag)
        settledCount += 1
    }

    /// The job is settled in another way than by an acknowledgement.
    mutating func takeOut(_ job: JobNumber) -> (lane: Lane, tag: Tag)? {
        guard let place = entries.index(forKey: job) else { return nil }
        let entry = remove(place)
        return (entry.lane, entry.tag)
    }

    /// The connection that brought the jobs of a lane was lost: no tag of it is valid any more, and the broker delivers the jobs anew.
    mutating func forget(_ lane: Lane) {
        for (job, entry) in entries where entry.lane == lane { if let place = entries.index(forKey: job) { _ = remove(place) } }
        settledCount -= settled[lane].count
        settled[lane] = []
    }

    /// - Parameter body: Gets the settled tags of each lane that has some.
    mutating func takeSettled(_ body: (Lane, [Tag]) -> Void) {
        guard settledCount > 0 else { return }
        for lane in Lane.allCases where !settled[lane].isEmpty {
            body(lane, settled[lane])
            settled[lane] = []
        }
        settledCount = 0
    }
}
