/// The shares a connection is working on, in places that are used again. Collects each share's answers until none is outstanding.
struct OpenShares {
    struct Entry {
        let share: Share
        var answers: [APNsAnswer]
        /// Requests of it that are neither answered nor given back.
        var outstanding: Int
    }

    private var entries: [Entry?] = []
    private var free: [Int] = []

    var isEmpty: Bool { free.count == entries.count }

    mutating func open(_ share: Share) -> Int {
        var answers: [APNsAnswer] = []
        answers.reserveCapacity(share.requests.count)
        let entry = Entry(share: share, answers: answers, outstanding: share.requests.count)
        if let place = free.popLast() {
            entries[place] = entry
            return place
        }
        entries.append(entry)
        return entries.count - 1
    }

    /// - Returns: the batch, if this was the last answer it waited for.
    mutating func answer(_ place: Int, _ answer: APNsAnswer) -> APNsFinishedBatch? {
        entries[place]?.answers.append(answer)
        return settleIfDone(place, 1)
    }

    /// Takes some requests out of the share: they get their answers elsewhere.
    mutating func giveBack(_ place: Int, _ requests: Range<Int>) -> (share: Share, finished: APNsFinishedBatch?)? {
        guard var share = entries[place]?.share else { return nil }
        share.requests = requests
        return (share, settleIfDone(place, requests.count))
    }

    func batch(_ place: Int) -> APNsBatch? { entries[place]?.share.batch }

    private mutating func settleIfDone(_ place: Int, _ count: Int) -> APNsFinishedBatch? {
        entries[place]?.outstanding -= count
        guard entries[place]?.outstanding == 0, var entry = entries[place] else { return nil }
        entries[place] = nil
        free.append(place)
        return entry.answers.isEmpty ? nil : entry.share.ledger.settle(&entry.answers)
    }
}
