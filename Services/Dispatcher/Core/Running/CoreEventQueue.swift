import APNs
import Broker
import PushModel

/// What waits for the core, in the order in which it came, but that jobs of the lane `now` overtake other lanes' jobs and results (DESIGN.md
/// section 8, promise 9). They overtake nothing that changes what happens to a job: no word of the control stream, no lost connection, no stop.
/// A pure value.
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
    private var urgent: [ReceivedMessage] = []
    private var events: [CoreEvent] = []
    /// How many of the events have gone, and of the first that has not, how many of its jobs.
    private var gone = 0
    private var goneJobs = 0
    /// Events that must not be overtaken.
    private var barriers = 0

    init(nowQueue: String) {
        self.nowQueue = nowQueue
    }

    var isEmpty: Bool { urgent.isEmpty && gone == events.count }
    /// Events, however many portions they will be.
    var count: Int { events.count - gone }

    mutating func append(contentsOf newcomers: [CoreEvent]) {
        // Under load it may never be empty, and what has gone would stay.
        events.removeFirst(gone)
        gone = 0
        for event in newcomers { append(event) }
    }

    private mutating func append(_ event: CoreEvent) {
        guard case .jobsReceived(let messages) = event, barriers == 0, messages.contains(where: { $0.queue == nowQueue }) else {
            if event.isBarrier { barriers += 1 }
            return events.append(event)
        }
        urgent += messages.filter { $0.queue == nowQueue }
        let others = messages.filter { $0.queue != nowQueue }
        if !others.isEmpty { events.append(.jobsReceived(others)) }
    }

    mutating func next() -> Portion? {
        if !urgent.isEmpty {
            defer { urgent = [] }
            return Portion(event: .jobsReceived(urgent), size: urgent.reduce(0) { $0 + $1.body.count }, isContinued: false)
        }
        guard gone < events.count else { return nil }
        if case .jobsReceived(let messages) = events[gone] { return portion(of: messages) }
        let event = events[gone]
        if event.isBarrier { barriers -= 1 }
        dropFirst()
        var size = 0
        if case .batchFinished(let finished) = event { size = finished.answers.count * Self.answerSize }
        return Portion(event: event, size: size, isContinued: false)
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
