import Broker
import PushModel

/// Jobs that the broker has sent and the core has not begun. `now` goes first, the other lanes take turns (docs/promises.md, 9), and a lane gives
/// nothing while as many of its deliveries are at work as it may have. The prefetch of each lane bounds what waits.
struct WaitingJobs {
    /// Bytes of one portion: some hundred microseconds' work, after which a job of `now` may go.
    static let portionSize = 32_768
    /// A delivery takes about so many bytes of a job.
    private static let deliverySize = 100

    private let lanes: [String: Lane]
    private var lines: [Lane: FIFO<ReceivedMessage>] = [:]
    /// The next portion is of `bulk`, if something of it waits.
    private var isTurnOfBulk = false

    /// - Parameter topology: tells which queue is of which lane.
    init(topology: Topology) {
        lanes = Dictionary(uniqueKeysWithValues: Lane.allCases.map { (topology.jobQueue($0), $0) })
    }

    var isEmpty: Bool { lines.values.allSatisfy(\.isEmpty) }

    /// - Parameter room: deliveries of a lane that may be begun.
    func hasWork(room: (Lane) -> Int) -> Bool { lines.contains { !$1.isEmpty && room($0) > 0 } }

    mutating func append(_ messages: [ReceivedMessage]) {
        for message in messages { lines[lanes[message.queue] ?? .bulk, default: FIFO()].append(message) }
    }

    /// The connection that brought them is lost. The broker delivers them again.
    mutating func removeAll() { lines = [:] }

    /// - Parameter room: deliveries of a lane that may be begun.
    /// - Returns: jobs of one lane, at least one; nil where nothing may go.
    mutating func next(room: (Lane) -> Int) -> [ReceivedMessage]? {
        isTurnOfBulk.toggle()
        for lane in isTurnOfBulk ? [Lane.now, .bulk, .soon] : [.now, .soon, .bulk] {
            let room = room(lane)
            guard room > 0 else { continue }
            // The room of a process that stops is `.max`.
            let portion = take(from: lane, bytes: min(Self.portionSize, min(room, Self.portionSize) * Self.deliverySize))
            if !portion.isEmpty { return portion }
        }
        return nil
    }

    /// - Returns: at most so many bytes, or one job.
    private mutating func take(from lane: Lane, bytes: Int) -> [ReceivedMessage] {
        var portion: [ReceivedMessage] = []
        var left = bytes
        while let next = lines[lane]?.first, portion.isEmpty || next.body.count <= left {
            _ = lines[lane]?.popFirst()
            portion.append(next)
            left -= next.body.count
        }
        return portion
    }
}
