import ChaosLedger
import Foundation
import PushModel
import SystemIO

/// A flood's thread for all of its connections, so that it takes little of the machine that it shares with the platform.
final class FloodLoop {
    private static let patience: Int64 = 20_000_000

    private let flood: Flood
    private let pace: Flood.Pace
    private let duration: Duration
    private let poller: Poller
    private let connections: [FloodConnection]
    /// Of each token service.
    private var idle: [[Int]]
    private var turn = 0
    private var buffer = [UInt8](repeating: 0, count: 16 << 10)
    private var random: SeededGenerator
    /// Of this second.
    private var sample = SampleRecord.Flood(at: 0, shed: 0, unsent: 0, longest: 0)
    private var records: [ClientRecord] = []
    private var nextSecond = ContinuousClock.now + .seconds(1)
    private var accepted = 0

    init(_ flood: Flood, _ pace: Flood.Pace, for duration: Duration, random: SeededGenerator) throws {
        (self.flood, self.pace, self.random) = (flood, pace, random)
        self.duration = duration
        poller = try Poller(capacity: 1024)
        let count = flood.addresses.count * pace.connections
        connections = (0..<count).map { FloodConnection(key: UInt64($0), service: $0 % flood.addresses.count) }
        idle = flood.addresses.indices.map { service in (0..<count).filter { $0 % flood.addresses.count == service } }
        for connection in connections { try connection.connect(to: flood.addresses[connection.service], poller) }
    }

    /// Returns when every request has an answer or has timed out.
    func run() throws -> Flood.Outcome {
        defer { for connection in connections { connection.close(poller) } }
        var next = ContinuousClock.now
        let end = next + duration
        let began = now()
        while case let now = ContinuousClock.now, now < end {
            switch pace {
            case .closed: while let index = takeIdle() { ask(index) }
            case .open(let perSecond, _):
                while next <= now {
                    if let index = takeIdle() { ask(index) } else { sample.unsent += 1 }
                    next += .seconds(1 / perSecond)
                }
            }
            try listen(until: min(end, pace.isOpen ? max(next, now + .milliseconds(1)) : nextSecond))
        }
        let outcome = Flood.Outcome(began: began, ended: now(), accepted: accepted)
        let last = ContinuousClock.now + .microseconds(Self.patience)
        while connections.contains(where: { $0.question != nil }), ContinuousClock.now < last { try listen(until: .now + .seconds(1)) }
        for connection in connections where connection.question != nil { give(up: connection) }
        flush()
        return outcome
    }

    private func listen(until moment: ContinuousClock.Instant) throws {
        for event in try poller.wait(timeout: max(.zero, moment - .now)) {
            let connection = connections[Int(event.key)]
            do {
                guard let answer = try connection.receive(&buffer) else { continue }
                answered(connection, answer)
            } catch { give(up: connection) }  // whatever it was: there is no answer
        }
        guard ContinuousClock.now >= nextSecond else { return }
        nextSecond = .now + .seconds(1)
        let oldest = now() - Self.patience
        for connection in connections { if let question = connection.question, question.sentAt < oldest { give(up: connection) } }
        flush()
    }

    /// The services take turns, so that one that refuses quickly gets no more requests than the other.
    private func takeIdle() -> Int? {
        for _ in idle.indices {
            turn = (turn + 1) % idle.count
            if let index = idle[turn].popLast() { return index }
        }
        return nil
    }

    private func ask(_ index: Int) {
        let connection = connections[index]
        let app = Int.random(in: flood.apps.indices, using: &random)
        let user = flood.drawUser(&random)
        let marker = flood.ledgers.nextMarker()
        connection.question = .init(app: app, user: user, marker: marker, sentAt: now())
        do {
            if connection.socket == nil { try connection.connect(to: flood.addresses[connection.service], poller) }
            if !connection.send(flood.request(app, user, marker)) { give(up: connection) }
        } catch { give(up: connection) }
    }

    private func answered(_ connection: FloodConnection, _ answer: FloodConnection.Answer) {
        guard let question = connection.question else { return give(up: connection) }
        let moment = now()
        if answer.status == 429 || answer.status == 503, answer.retryAfter != nil {
            sample.shed += 1
            sample.longest = max(sample.longest, moment - question.sentAt)
        } else {
            var record = flood.record(question, service: connection.service)
            (record.answeredAt, record.status, record.retryAfter) = (moment, answer.status, answer.retryAfter)
            record.notification = answer.notification
            records.append(record)
            if answer.status == 202 { accepted += 1 }
        }
        connection.question = nil
        idle[connection.service].append(Int(connection.key))
    }

    /// No answer will come; the next request goes over a new connection.
    private func give(up connection: FloodConnection) {
        connection.close(poller)
        guard let question = connection.question else { return }
        var record = flood.record(question, service: connection.service)
        record.gaveUpAt = now()
        records.append(record)
        connection.question = nil
        idle[connection.service].append(Int(connection.key))
    }

    /// Writes the results into the ledgers, once a second.
    private func flush() {
        sample.at = now()
        flood.note(records, sample)
        records.removeAll(keepingCapacity: true)
        sample = SampleRecord.Flood(at: 0, shed: 0, unsent: 0, longest: 0)
    }
}
