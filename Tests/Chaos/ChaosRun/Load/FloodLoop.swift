import Foundation
import SystemIO
import TestSupport

/// A flood's one thread, for all of its connections. It looks at them every two milliseconds and takes all answers that have come: if it
/// woke for each answer, it would take far more of the processors that the platform needs.
final class FloodLoop {
    private final class Connection {
        /// The number of the token service.
        let service: Int
        var wire: PipelinedConnection?
        /// A batch, in the order of its answers.
        var questions: [FloodBook.Question] = []
        /// How many of them are answered.
        var answered = 0

        init(_ service: Int) { self.service = service }

        var open: ArraySlice<FloodBook.Question> { questions[answered...] }
    }

    private static let round = 0.002
    /// In microseconds.
    private static let patience: Int64 = 20_000_000

    private(set) var book = FloodBook()
    private let flood: Flood
    private let pace: Flood.Pace
    private let poller: Poller
    private let connections: [Connection]
    /// Of each token service.
    private var idle: [[Int]]
    private var turn = 0
    private var requests: [UInt8] = []
    private var buffer = [UInt8](repeating: 0, count: 16 << 10)
    private var random: SeededGenerator
    private var nextSecond = ContinuousClock.now + .seconds(1)

    init(_ flood: Flood, _ pace: Flood.Pace, seed: UInt64) throws {
        (self.flood, self.pace, random) = (flood, pace, SeededGenerator(seed: seed))
        let services = flood.services.indices
        let count = services.count * pace.connections
        poller = try Poller(capacity: count)
        connections = (0..<count).map { Connection($0 % services.count) }
        idle = services.map { service in (0..<count).filter { $0 % services.count == service } }
        for index in connections.indices { try connect(index) }
    }

    /// Returns when every request has an answer or has timed out.
    func run(for duration: Duration) throws -> Flood.Outcome {
        var due = ContinuousClock.now
        let end = due + duration
        let began = now()
        while case let moment = ContinuousClock.now, moment < end {
            switch pace {
            case .closed:
                // At most once each: a service that is gone frees its connections at once.
                for _ in connections.indices {
                    guard let index = takeIdle() else { break }
                    ask(index)
                }
            case .open(let perSecond, _):
                while due <= moment {
                    if let index = takeIdle() { ask(index) } else { book.unsent(Flood.batch) }
                    due += .seconds(Double(Flood.batch) / perSecond)
                }
            }
            try listen()
        }
        let outcome = Flood.Outcome(began: began, ended: now(), accepted: book.accepted)
        let last = ContinuousClock.now + .microseconds(Self.patience)
        while connections.contains(where: { !$0.open.isEmpty }), ContinuousClock.now < last { try listen() }
        for index in connections.indices where !connections[index].open.isEmpty { giveUp(index) }
        flood.note(book.endSecond(at: now()))
        return outcome
    }

    /// One round: waits, and takes what has come.
    private func listen() throws {
        Thread.sleep(forTimeInterval: Self.round)
        for event in try poller.wait(timeout: .zero) {
            let index = Int(event.key)
            let connection = connections[index]
            do {
                if event.isWritable { try connection.wire?.resume() }
                guard event.isReadable else { continue }
                try connection.wire?.receive(&buffer) { answer in try answered(connection, answer) }
                if connection.open.isEmpty, !connection.questions.isEmpty { release(index) }
            } catch { giveUp(index) }  // whatever it was: there is no answer
        }
        guard ContinuousClock.now >= nextSecond else { return }
        nextSecond = .now + .seconds(1)
        let oldest = now() - Self.patience
        for index in connections.indices { if let question = connections[index].open.first, question.sentAt < oldest { giveUp(index) } }
        flood.note(book.endSecond(at: now()))
    }

    /// The services take turns, so that one that refuses quickly gets no more requests than the other.
    private func takeIdle() -> Int? {
        for _ in idle.indices {
            turn = (turn + 1) % idle.count
            if let index = idle[turn].popLast() { return index }
        }
        return nil
    }

    private func connect(_ index: Int) throws {
        let address = flood.services[connections[index].service].address
        connections[index].wire = try PipelinedConnection(
            to: address, key: UInt64(index), poller, keepsBodies: true, timeout: .seconds(2))
    }

    private func ask(_ index: Int) {
        let connection = connections[index]
        requests.removeAll(keepingCapacity: true)
        let sentAt = now()
        for _ in 0..<Flood.batch {
            let app = Int.random(in: flood.requests.apps.indices, using: &random)
            let user = Int.random(in: flood.requests.users.indices, using: &random)
            let marker = FloodRequests.marker(flood.ledgers.nextMarker())
            connection.questions.append(.init(app: app, user: user, marker: marker, sentAt: sentAt))
        }
        for question in connection.questions { flood.requests.append(question, to: &requests) }
        do {
            if connection.wire == nil { try connect(index) }
            try connection.wire?.send(requests)
        } catch { giveUp(index) }
    }

    private func answered(_ connection: Connection, _ answer: HTTPAnswerReader) throws {
        guard let question = connection.open.first else { throw ChaosError("an answer came to no request") }
        connection.answered += 1
        book.answered(question, by: connection.service, answer, at: now())
    }

    /// No answer will come to what is open on this connection. The next requests go over a new one.
    private func giveUp(_ index: Int) {
        let connection = connections[index]
        connection.wire = nil
        guard !connection.questions.isEmpty else { return }
        let moment = now()
        for question in connection.open { book.gaveUp(question, of: connection.service, at: moment) }
        release(index)
    }

    private func release(_ index: Int) {
        let connection = connections[index]
        connection.questions.removeAll(keepingCapacity: true)
        connection.answered = 0
        idle[connection.service].append(index)
    }
}
