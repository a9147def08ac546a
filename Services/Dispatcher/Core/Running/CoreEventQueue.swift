import APNs
import Broker
import PushModel

/// What waits for the core, in the order in which it came, but that jobs of the lane `now` overtake other lanes' jobs and results (DESIGN.md
/// section 8, promise 9), and that jobs of `bulk` wait until there is room for them (``BulkPace``). No job overtakes what changes what happens to it:
/// no word of the control stream, no lost connection, no stop. A pure value.
struct CoreEventQueue {
    struct Portion {
        let event: CoreEvent
        /// How much work it is: bytes of jobs, or what answers weigh beside them.
        let size: Int
        /// The rest of the same event follows: what is to be done about it can be done together.
        let isContinued: Bool
    }

    /// The most bytes of jobs that are taken at once: some hundred microseconds' work.
    static let portionSize = 32_768
    private static let answerSize = 80

    private let nowQueue: String
    private let bulkQueue: String
    private var urgent: [ReceivedMessage] = []
    private var bulk = FIFO<ReceivedMessage>()
    /// Results and jobs of `bulk` take turns.
    private var isTurnOfBulk = true
    private var events: [CoreEvent] = []
    /// How many of the events have gone, and of the first that has not, how many of its jobs.
    private var gone = 0
    private var goneJobs = 0
    /// Events that must not be overtaken.
    private var barriers = 0

    init(nowQueue: String, bulkQueue: String) {
        self.nowQueue = nowQueue
        self.bulkQueue = bulkQueue
    }

    var isEmpty: Bool { urgent.isEmpty && gone == events.count && bulk.isEmpty }
    /// Events, however many portions they will be; jobs of `bulk` that may wait are one.
    var count: Int { events.count - gone + (bulk.isEmpty ? 0 : 1) }

    func hasWork(bulkRoom: Int) -> Bool { !urgent.isEmpty || gone < events.count || (bulkRoom > 0 && !bulk.isEmpty) }

    mutating func append(contentsOf newcomers: [CoreEvent]) {
        // Under load it may never be empty, and what has gone would stay.
        events.removeFirst(gone)
        gone = 0
        for event in newcomers { append(event) }
    }

    private mutating func append(_ event: CoreEvent) {
        guard case .jobsReceived(let messages) = event, barriers == 0 else {
            if event.isBarrier { barriers += 1 }
            return events.append(event)
        }
        var others: [ReceivedMessage] = []
        for message in messages {
            switch message.queue {
            case nowQueue: urgent.append(message)
            case bulkQueue: bulk.append(message)
            default: others.append(message)
            }
        }
        if !others.isEmpty { events.append(.jobsReceived(others)) }
    }

    /// - Parameter bulkRoom: how many jobs of `bulk` may go now.
    mutating func next(bulkRoom: Int) -> Portion? {
        if !urgent.isEmpty {
            defer { urgent = [] }
            return Portion(event: .jobsReceived(urgent), size: urgent.reduce(0) { $0 + $1.body.count }, isContinued: false)
        }
        isTurnOfBulk.toggle()
        if let portion = portionOfBulk(bulkRoom) { return portion }
        guard gone < events.count else { return nil }
        if case .jobsReceived(let messages) = events[gone] { return portion(of: messages) }
        let event = events[gone]
        if event.isBarrier { barriers -= 1 }
        dropFirst()
        var size = 0
        if case .batchFinished(let finished) = event { size = finished.answers.count * Self.answerSize }
        return Portion(event: event, size: size, isContinued: false)
    }

    /// What a connection brought has to be known before it is lost. Of everything else jobs may learn first.
    private mutating func portionOfBulk(_ bulkRoom: Int) -> Portion? {
        var room = bulkRoom
        if gone < events.count, case .jobsConnection = events[gone] {
            room = .max
        } else if gone < events.count, !isTurnOfBulk {
            return nil
        }
        guard room > 0, !bulk.isEmpty else { return nil }
        var jobs: [ReceivedMessage] = []
        var bytes = 0
        while let next = bulk.first, jobs.isEmpty || (jobs.count < room && bytes + next.body.count <= Self.portionSize) {
            _ = bulk.popFirst()
            jobs.append(next)
            bytes += next.body.count
        }
        return Portion(event: .jobsReceived(jobs), size: bytes, isContinued: false)
    }

    private mutating func portion(of messages: [ReceivedMessage]) -> Portion {
        let begin = goneJobs
        var bytes = 0
        while goneJobs < messages.count, goneJobs == begin || bytes + messages[goneJobs].body.count <= Self.portionSize {
            bytes += messages[goneJobs].body.count
            goneJobs += 1
        }
        let isContinued = goneJobs < messages.count
        let event = begin == 0 && !isContinued ? events[gone] : .jobsReceived(Array(messages[begin..<goneJobs]))
        if !isContinued { dropFirst() }
        return Portion(event: event, size: bytes, isContinued: isContinued)
    }

    private mutating func dropFirst() {
        gone += 1
        goneJobs = 0
        guard gone == events.count else { return }
        events.removeAll(keepingCapacity: true)
        gone = 0
    }
}

extension CoreEvent {
    fileprivate var isBarrier: Bool {
        switch self {
        case .jobsReceived, .batchFinished, .published: false
        case .controlReceived, .jobsConnection, .controlConnection, .credentialsChanged, .stop: true
        }
    }
}
