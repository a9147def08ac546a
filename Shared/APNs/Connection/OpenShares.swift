/// The shares a connection is working on, in places that are used again. Collects each share's answers until none is outstanding.
struct OpenShares {
    private struct Entry {
        /// nil: the place is free.
        var share: Share?
        var answers: [APNsAnswer] = []
        /// Requests of it that are neither answered nor given back.
        var outstanding = 0
    }

    private var entries: [Entry] = []
    private var free: [Int] = []

    var isEmpty: Bool { free.count == entries.count }

    mutating func open(_ share: Share) -> Int {
        let place: Int
        if let known = free.popLast() {
            place = known
        } else {
            place = entries.count
            entries.append(Entry())
        }
        entries[place].outstanding = share.requests.count
        entries[place].answers.reserveCapacity(share.requests.count)
        entries[place].share = share
        return place
    }

    /// - Returns: the batch, if this was the last answer it waited for.
    mutating func answer(_ place: Int, _ answer: APNsAnswer) -> APNsFinishedBatch? {
        entries[place].answers.append(answer)
        return settleIfDone(place, 1)
    }

    /// Takes some requests out of the share: they get their answers elsewhere.
    mutating func giveBack(_ place: Int, _ requests: Range<Int>) -> (share: Share, finished: APNsFinishedBatch?)? {
        guard var share = entries[place].share else { return nil }
        share.requests = requests
        return (share, settleIfDone(place, requests.count))
    }

    func batch(_ place: Int) -> APNsBatch? { entries[place].share?.batch }

    private mutating func settleIfDone(_ place: Int, _ count: Int) -> APNsFinishedBatch? {
        entries[place].outstanding -= count
        guard entries[place].outstanding == 0, let share = entries[place].share.take() else { return nil }
        free.append(place)
        return entries[place].answers.isEmpty ? nil : share.ledger.settle(&entries[place].answers)
    }
}
