import HTTP2
import Synchronization

@testable import APNsSimulator

/// A connection between TLS and the device world, without its socket.
enum FuzzConnection {
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    private static let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]
    private static let now: Int64 = 1_800_000_000_000

    /// - Parameter bytes: The first byte is the size of the pieces in which the others arrive.
    static func run(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        let world = World(unknownDevices: .accept, journalCapacity: 16, clock: { 0 })
        var check = RequestCheck(authority: ConnectionAuthority(environment: .sandbox, keyRing: FuzzProviderToken.keyRing))
        var answers = AnswerWriter(hasUniqueID: true)
        var random = FastRandom()
        do {
            let session = try HTTP2ServerSession()
            try session.receive((preface + settings).span)
            var rest = bytes.dropFirst()
            while !rest.isEmpty {
                let piece = Array(rest.prefix(max(1, Int(first))))
                rest = rest.dropFirst(piece.count)
                try session.receive(piece.span)
                try session.forEachEvent { event throws(HTTP2Error) in
                    guard case .request(let stream, let headers, let body) = event else { return }
                    var facts = PushFacts()
                    let refusal = check.check(headers, body: body, now: now, facts: &facts)
                    let id = facts.id ?? MessageID.make(using: &random)
                    let origin = RequestOrigin(environment: .sandbox, connection: 1, stream: stream)
                    let (step, sequence) = world.settle(facts, id: id, refusal: refusal, from: origin, now: now)
                    let pending = PendingStep(stream: stream, id: id, step: step, sequence: sequence)
                    _ = try answers.write(step.answer, to: pending, unique: id, on: session)
                }
                var output: [UInt8] = []
                while try session.gatherOutput(into: &output) { output.removeAll() }
            }
        } catch {
            // The connection would be closed.
        }
        for entry in world.state.withLock({ $0.journal.records(after: 0, limit: 16) }) {
            _ = JournalEntry(sequence: entry.sequence, entry.record)
        }
    }
}
