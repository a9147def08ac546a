import RabbitMQ
import Synchronization
import SystemIO

/// The thread that holds a reading's connection.
final class QueueReadingThread: Sendable {
    private enum Order: Sendable {
        case take([Receipt])
        case leave
    }

    private typealias Sight = QueueReading.Sight

    /// A queue that said it has more and gives nothing for so long has none for us.
    private static let patience = Duration.seconds(2)
    /// Heartbeats are answered only when somebody looks.
    private static let longestWait = Duration.milliseconds(500)

    private let configuration: RabbitMQConfiguration
    private let queue: String
    private let limit: Int
    private let isWanted: @Sendable (ReceivedMessage) -> Bool
    private let wakeUp: WakeUp
    private let orders: Mailbox<Order>
    private let seen = Answer<QueueReading.Sight>()
    private let ended = Answer<Void>()

    init(
        _ configuration: RabbitMQConfiguration, queue: String, limit: Int, isWanted: @escaping @Sendable (ReceivedMessage) -> Bool
    ) throws(SystemError) {
        self.configuration = configuration
        self.queue = queue
        self.limit = limit
        self.isWanted = isWanted
        wakeUp = try WakeUp()
        orders = Mailbox(wakeUp: wakeUp)
    }

    func begin() async throws -> QueueReading.Sight {
        _ = SystemThread.start(name: "reader") { [self] in run() }
        return try await seen.value()
    }

    /// Returns when what was not taken is back in the queue.
    func end(taking receipts: [Receipt]) async throws {
        orders.post(.take(receipts))
        try await ended.value()
    }

    /// The reading failed already: how its end goes changes nothing.
    func abandon() async {
        orders.post(.leave)
        do { try await ended.value() } catch { /* The connection's end puts everything back, whatever ended it. */  }
    }

    // MARK: The thread

    private func run() {
        let result = Result { () throws(RabbitMQError) in try work() }
        // A reading that never began has no sight to give.
        switch result {
        case .success(let failure): seen.give(.failure(failure ?? QueueIsBeingRead()))
        case .failure(let error): seen.give(.failure(error))
        }
        ended.give(result.map { _ in () }.mapError { $0 })
    }

    /// - Returns: why nothing was read, where that is no fault of the connection.
    private func work() throws(RabbitMQError) -> QueueIsBeingRead? {
        let connection = try RabbitMQConnection.open(configuration)
        defer { connection.close() }
        let (ready, others) = try connection.queueState(queue)
        guard others == 0 else { return QueueIsBeingRead() }
        try connection.limitUnacknowledged(UInt16(clamping: limit))
        try connection.consume(queue: queue, consumer: 0)
        // Two that begin at once see each other here, if not before.
        guard try connection.queueState(queue).consumers == 1 else { return QueueIsBeingRead() }
        let sight = try look(connection, ready: ready)
        seen.give(.success(sight))
        let taken = try waitForOrder(connection)
        for receipt in taken { try connection.acknowledge(receipt.tag, multiple: false) }
        // The broker answers in order: with this it has the acknowledgements.
        _ = try connection.queueState(queue)
        connection.close()
        try waitUntilBack(sight.seen - taken.count)
        return nil
    }

    private func look(_ connection: RabbitMQConnection, ready: Int) throws(RabbitMQError) -> QueueReading.Sight {
        var sight = QueueReading.Sight()
        let wanted = min(ready, limit)
        var events: [RabbitMQEvent] = []
        var last = ContinuousClock.now
        while sight.seen < wanted, last.duration(to: .now) < Self.patience {
            try connection.receive(into: &events)
            for event in events {
                guard case .delivery(let delivery) = event else { continue }
                sight.seen += 1
                last = .now
                let message = ReceivedMessage(
                    receipt: Receipt(generation: 0, tag: delivery.tag), queue: queue, routingKey: delivery.routingKey,
                    redelivered: delivery.isRedelivered, body: delivery.body, streamOffset: nil, properties: delivery.properties)
                if isWanted(message) { sight.messages.append(message) }
            }
            if events.isEmpty { try connection.wait(orUntil: wakeUp.descriptor, timeout: Self.longestWait) }
            events.removeAll(keepingCapacity: true)
        }
        sight.isComplete = ready <= limit
        return sight
    }

    private func waitForOrder(_ connection: RabbitMQConnection) throws(RabbitMQError) -> [Receipt] {
        var events: [RabbitMQEvent] = []
        while true {
            wakeUp.clear()
            for order in orders.takeAll() {
                switch order {
                case .take(let receipts): return receipts
                case .leave: return []
                }
            }
            // What comes on top while the caller works goes back with the rest.
            try connection.receive(into: &events)
            events.removeAll(keepingCapacity: true)
            try connection.wait(orUntil: wakeUp.descriptor, timeout: Self.longestWait)
        }
    }

    /// The broker puts messages back a moment after their connection has ended: the next reading is to find them.
    private func waitUntilBack(_ count: Int) throws(RabbitMQError) {
        let connection = try RabbitMQConnection.open(configuration)
        defer { connection.close() }
        let end = ContinuousClock.now + Self.patience
        while .now < end {
            let (ready, consumers) = try connection.queueState(queue)
            if ready >= count, consumers == 0 { return }
            try connection.wait(orUntil: wakeUp.descriptor, timeout: .milliseconds(10))
        }
    }
}

/// One value that one task waits for and a thread gives.
private final class Answer<Value: Sendable>: Sendable {
    private enum State {
        case open
        case awaited(CheckedContinuation<Value, any Error>)
        case given(Result<Value, any Error>)
    }

    private let state = Mutex(State.open)

    /// The first one counts.
    func give(_ result: Result<Value, any Error>) {
        let waiting: CheckedContinuation<Value, any Error>? = state.withLock { state in
            switch state {
            case .open:
                state = .given(result)
                return nil
            case .awaited(let continuation):
                state = .given(result)
                return continuation
            case .given: return nil
            }
        }
        waiting?.resume(with: result)
    }

    /// For one task, once.
    func value() async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            let given: Result<Value, any Error>? = state.withLock { state in
                if case .given(let result) = state { return result }
                state = .awaited(continuation)
                return nil
            }
            if let given { continuation.resume(with: given) }
        }
    }
}
