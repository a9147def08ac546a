import APNs
import Broker
import PushModel

/// What waits for the core, in the order in which it came, but that jobs of the lane `now` overtake other lanes' jobs and results
/// (docs/promises.md, 9), and that jobs of `bulk` wait until there is room for them (``BulkPace``). No job overtakes what changes what
/// happens to it: no word of the control stream, no stop. Where the connection that brought them is lost, those that wait are dropped: the
/// broker delivers them all again, and whoever began one now would send it twice (promise 2). A pure value.
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
    /// Only the last can be one that must not be overtaken.
    private var events: [CoreEvent] = []
    /// How many of the events have gone, and of the first that has not, how many of its jobs.
    private var gone = 0
    private var goneJobs = 0
    /// What came after such a one, as it came: nothing of it goes before that has gone.
    private var later = FIFO<CoreEvent>()

    init(nowQueue: String, bulkQueue: String) {
        self.nowQueue = nowQueue
        self.bulkQueue = bulkQueue
    }

    var isEmpty: Bool { urgent.isEmpty && gone == events.count && bulk.isEmpty }
    /// Events, however many portions they will be; jobs of `bulk` that may wait are one.
    var count: Int { events.count - gone + later.count + (bulk.isEmpty ? 0 : 1) }

    private var endsInBarrier: Bool { events.last?.isBarrier ?? false }

    func hasWork(bulkRoom: Int) -> Bool { !urgent.isEmpty || gone < events.count || (bulkRoom > 0 && !bulk.isEmpty) }

    mutating func append(contentsOf newcomers: [CoreEvent]) {
        // Under load it may never be empty, and what has gone would stay.
        events.removeFirst(gone)
        gone = 0
        for event in newcomers {
            if case .jobsConnection(isUp: false) = event { dropJobs() }
            if endsInBarrier { later.append(event) } else { sortIn(event) }
        }
    }

    private mutating func sortIn(_ event: CoreEvent) {
        guard case .jobsReceived(let messages) = event else { return events.append(event) }
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

    private mutating func dropJobs() {
        urgent = []
        bulk = FIFO()
        events.removeAll(where: \.bringsJobs)
        goneJobs = 0
        var others = FIFO<CoreEvent>()
        while let event = later.popFirst() {
            if !event.bringsJobs { others.append(event) }
        }
        later = others
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
        dropFirst()
        while !endsInBarrier, let newcomer = later.popFirst() { sortIn(newcomer) }
        var size = 0
        if case .batchFinished(let finished) = event { size = finished.answers.count * Self.answerSize }
        return Portion(event: event, size: size, isContinued: false)
    }

    private mutating func portionOfBulk(_ room: Int) -> Portion? {
        guard room > 0, !bulk.isEmpty, isTurnOfBulk || gone == events.count else { return nil }
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
    fileprivate var bringsJobs: Bool { if case .jobsReceived = self { true } else { false } }

    fileprivate var isBarrier: Bool {
        switch self {
        case .jobsReceived, .batchFinished, .published, .markerPublished: false
        case .controlReceived, .jobsConnection, .controlConnection, .credentialsChanged, .stop: true
        }
    }
}
