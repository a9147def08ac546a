/// The result of a push after it was accepted.
enum Reception: String, Sendable {
    /// A user saw it.
    case shown
    /// The app got it, the user saw nothing: a background push, or one without visible content.
    case silent
    /// The device was off: it waits, and may have taken the place of an earlier one (``Readings/Stored``).
    case stored
    /// The device was off and it may not wait, or the app is gone.
    case dropped
    /// It waited too long.
    case expired
    /// A Live Activity's state older than the one that is shown, or after the end.
    case outdated
    /// A Live Activity's push that the device does nothing with; its result says why.
    case ignored
    /// No push: the device itself has changed, or one of its activities.
    case device
}

/// One line for the pages and terminals that follow the arrivals.
struct Arrival {
    let reception: Reception
    /// UNIX milliseconds.
    let time: Int64
    let token: TokenKey
    let topic: [UInt8]
    let type: ServerPushType?
    let id: MessageID?
    let content: PayloadReader.Reading?
    /// What became of a Live Activity.
    let activity: ActivityResult?
    let activityID: String?

    init(_ result: DeviceResult, token: TokenKey, _ facts: PushFacts, id: MessageID, now: Int64) {
        self.init(result, token: token, topic: facts.topic, type: facts.type, id: id, content: facts.content, now: now)
    }

    init(_ result: DeviceResult, token: TokenKey, _ entry: Inbox.Entry, now: Int64) {
        let id = entry.target.channelID == nil ? entry.id : nil
        self.init(result, token: token, topic: entry.topic, type: entry.type, id: id, content: entry.content, now: now)
    }

    init(
        _ result: DeviceResult, token: TokenKey, topic: [UInt8] = [], type: ServerPushType? = nil, id: MessageID? = nil,
        content: PayloadReader.Reading? = nil, now: Int64
    ) {
        reception = result.reception
        activity = result.activity
        activityID = result.activityID
        time = now
        self.token = token
        self.topic = topic
        self.type = type
        self.id = id
        self.content = content
    }
}

/// The last arrivals at installed devices. A ring.
struct ArrivalLog {
    private static let capacity = 10_000

    private var entries: [Arrival] = []
    private var start = 0
    /// The next arrival's number; the first is 1.
    private(set) var nextSequence: Int64 = 1

    mutating func append(_ arrival: Arrival) {
        if entries.count < Self.capacity {
            entries.append(arrival)
        } else {
            entries[start] = arrival
            start = start + 1 == Self.capacity ? 0 : start + 1
        }
        nextSequence += 1
    }

    /// - Returns: The arrivals with a number above `sequence`, oldest first, at most `limit`.
    func arrivals(after sequence: Int64, limit: Int) -> [(sequence: Int64, arrival: Arrival)] {
        let oldest = nextSequence - Int64(entries.count)
        let first = max(sequence + 1, oldest)
        guard first < nextSequence else { return [] }
        return (first..<min(nextSequence, first + Int64(clamping: limit))).map { number in
            (number, entries[(start + Int(number - oldest)) % entries.count])
        }
    }
}
