import RabbitMQ
import Synchronization
import SystemIO

/// The thread that holds a reading's connection.
final class QueueReadingThread: Sendable {
    private enum Order: Sendable {
        case take([DeliveryTag])
        case leave
    }

    /// A queue that has messages and delivers none for this long has none for us.
    private static let patience = Duration.seconds(10)
    /// Heartbeats are answered only when the thread reads.
    private static let longestWait = Duration.milliseconds(500)
    private static let doubts = 3
    private static let burst = 30
    private static let applyTime = Duration.milliseconds(10)
    private static let maximumPasses = 5

    private let configuration: RabbitMQConfiguration
    private let queue: String
    private let limit: Int
    private let isWanted: @Sendable (ReceivedMessage) -> Bool
    private let wakeUp: WakeUp
    private let orders: Mailbox<Order>
    private let seen = AwaitedValue<QueueReading.Sight>()
    private let ended = AwaitedValue<Void>()

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
        try SystemThread.start(name: "reader") { [self] in run() }
        return try await seen.value()
    }

    /// Returns when the other messages are back in the queue.
    func end(taking deliveryTags: [DeliveryTag]) async throws {
        orders.post(.take(deliveryTags))
        try await ended.value()
    }

    /// The reading failed already, so the result of its end does not matter.
    func abandon() async {
        orders.post(.leave)
        do { try await ended.value() } catch { /* The connection's end puts everything back, whatever ended it. */  }
    }

    // MARK: The thread

    private func run() {
        let result = Result { () throws(RabbitMQError) in try work() }
        // A reading that never began has no result.
        switch result {
        case .success(let failure): seen.give(.failure(failure ?? QueueIsBeingRead()))
        case .failure(let error): seen.give(.failure(error))
        }
        ended.give(result.map { _ in () }.mapError { $0 })
    }

    /// - Returns: why no message was read, if the connection is not at fault.
    private func work() throws(RabbitMQError) -> QueueIsBeingRead? {
        let connection = try RabbitMQConnection.open(configuration)
        defer { connection.close() }
        let (ready, others) = try state(connection)
        guard others == 0 else { return QueueIsBeingRead() }
        try subscribe(connection)
        // Two readers that begin at the same moment find each other here, if not before.
        guard try state(connection).consumers == 1 else { return QueueIsBeingRead() }
        let sight = try look(connection, ready: ready)
        seen.give(.success(sight))
        let deliveryTags = try waitForOrder(connection)
        try take(deliveryTags.map(\.tag), connection)
        connection.close()
        let rest = sight.seen - deliveryTags.count
        guard try waitUntilBack(rest) > rest else { return nil }
        // New messages, or acknowledgements of a quorum queue that were still on their way when the channel ended.
        let taken = Set(deliveryTags)
        try takeAgain(sight.messages.filter { taken.contains($0.deliveryTag) }, among: sight.seen)
        return nil
    }

    /// Asks again if it gets zeros (``BrokerQuirks``).
    private func state(_ connection: RabbitMQConnection) throws(RabbitMQError) -> (ready: Int, consumers: Int) {
        for _ in 0..<Self.doubts {
            let state = try connection.queueState(queue)
            if state.ready > 0 || state.consumers > 0 { return state }
        }
        return try connection.queueState(queue)
    }

    private func subscribe(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        try connection.limitUnacknowledged(UInt16(clamping: limit))
        try connection.consume(queue: queue, consumer: 0)
    }

    /// A few at a time: a channel drops the commands that it holds back when it is closed (``BrokerQuirks``).
    private func take(_ tags: [UInt64], _ connection: RabbitMQConnection) throws(RabbitMQError) {
        var events: [RabbitMQEvent] = []
        for start in stride(from: 0, to: tags.count, by: Self.burst) {
            for tag in tags[start..<min(start + Self.burst, tags.count)] { try connection.acknowledge(tag, multiple: false) }
            // The broker answers in order: with this it has read them.
            _ = try connection.queueState(queue)
            let end = ContinuousClock.now + Self.applyTime
            while .now < end {
                try connection.receive(into: &events)
                events.removeAll(keepingCapacity: true)
                try connection.wait(orUntil: wakeUp.descriptor, timeout: .milliseconds(5))
            }
        }
    }

    /// Checks whether any of these is back, and removes it once more.
    private func takeAgain(_ messages: [ReceivedMessage], among count: Int) throws(RabbitMQError) {
        var missing: [Print: Int] = [:]
        for message in messages { missing[Print(message), default: 0] += 1 }
        for _ in 0..<Self.maximumPasses where !missing.isEmpty {
            let connection = try RabbitMQConnection.open(configuration)
            defer { connection.close() }
            try subscribe(connection)
            var back: [UInt64] = []
            var left = missing
            try receive(min(try state(connection).ready + count, count), connection) { message in
                guard let number = left[Print(message)], number > 0 else { return }
                left[Print(message)] = number - 1
                back.append(message.deliveryTag.tag)
            }
            guard !back.isEmpty else { return }
            try take(back, connection)
            connection.close()
            _ = try waitUntilBack(0)
        }
    }

    /// Identifies a message, as far as it matters which of two equal ones is removed.
    private struct Print: Hashable {
        let id: String
        let body: [UInt8]

        init(_ message: ReceivedMessage) {
            id = message.properties.messageID
            body = message.body
        }
    }

    private func look(_ connection: RabbitMQConnection, ready: Int) throws(RabbitMQError) -> QueueReading.Sight {
        var sight = QueueReading.Sight()
        sight.seen = try receive(min(ready, limit), connection) { message in
            if isWanted(message) { sight.messages.append(message) }
        }
        sight.isComplete = ready <= limit
        return sight
    }

    /// - Returns: how many came.
    @discardableResult
    private func receive(
        _ wanted: Int, _ connection: RabbitMQConnection, _ visit: (ReceivedMessage) -> Void
    ) throws(RabbitMQError) -> Int {
        var count = 0
        var events: [RabbitMQEvent] = []
        var last = ContinuousClock.now
        while count < wanted, last.duration(to: .now) < Self.patience {
            try connection.receive(into: &events)
            for event in events {
                guard case .delivery(let delivery) = event else { continue }
                count += 1
                last = .now
                visit(
                    ReceivedMessage(
                        deliveryTag: DeliveryTag(generation: 0, tag: delivery.tag), queue: queue, routingKey: delivery.routingKey,
                        redelivered: delivery.isRedelivered, body: delivery.body, streamOffset: nil, properties: delivery.properties))
            }
            if events.isEmpty { try connection.wait(orUntil: wakeUp.descriptor, timeout: Self.longestWait) }
            events.removeAll(keepingCapacity: true)
        }
        return count
    }

    private func waitForOrder(_ connection: RabbitMQConnection) throws(RabbitMQError) -> [DeliveryTag] {
        var events: [RabbitMQEvent] = []
        while true {
            wakeUp.clear()
            for order in orders.takeAll() {
                switch order {
                case .take(let deliveryTags): return deliveryTags
                case .leave: return []
                }
            }
            // Messages that arrive while the caller works go back with the rest.
            try connection.receive(into: &events)
            events.removeAll(keepingCapacity: true)
            try connection.wait(orUntil: wakeUp.descriptor, timeout: Self.longestWait)
        }
    }

    /// The broker puts messages back a moment after their connection has ended: the next reading is to find them.
    /// - Returns: how many are there.
    private func waitUntilBack(_ count: Int) throws(RabbitMQError) -> Int {
        let connection = try RabbitMQConnection.open(configuration)
        defer { connection.close() }
        let end = ContinuousClock.now + Self.patience
        while true {
            let (ready, consumers) = try state(connection)
            if ready >= count && consumers == 0 || .now >= end { return ready }
            try connection.wait(orUntil: wakeUp.descriptor, timeout: .milliseconds(10))
        }
    }
}

/// One value that one task waits for and a thread gives.
private final class AwaitedValue<Value: Sendable>: Sendable {
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

    /// Waits for the answer, for one task, once.
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
