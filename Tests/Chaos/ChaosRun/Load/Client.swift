import ChaosLedger
import PushAPI
import PushModel
import StrictJSON
import TestSupport

/// The requests of backends and devices. The client records every attempt in the ledger and repeats it like a careful client.
struct Client: Sendable {
    /// How long a request is repeated before its client gives up.
    static let persistence = Duration.seconds(90)

    let caller: PushAPI
    let ledgers: Ledgers
    let tally: Tally
    let apps: [ChaosApp]
    /// Token services, through their proxies.
    let services: [(name: String, url: String)]
    let simulatorURL: String

    /// One request, as often as it may be asked.
    struct Question: Sendable {
        var record: ClientRecord
        let method: PushAPI.Method
        /// The path after the app's.
        let path: String
        var body: [UInt8]?
        /// The request may be repeated if no answer came, or if a refusal allows it.
        var mayRepeat = true
    }

    /// - Parameter app: its place among the apps.
    func question(_ kind: ClientRecord.Kind, _ app: Int, _ method: PushAPI.Method, _ path: String, body: [UInt8]? = nil) -> Question {
        Question(
            record: ClientRecord(id: 0, kind: kind, app: apps[app].slug, sentAt: 0), method: method,
            path: "/v1/apps/\(apps[app].slug)/\(path)", body: body)
    }

    /// Asks until there is an answer that is final, one service after another.
    /// - Returns: the last attempt as it was noted, with the answer's body.
    @discardableResult
    func ask(_ question: Question, _ random: inout SeededGenerator) async -> (record: ClientRecord, body: JSONValue?) {
        let deadline = ContinuousClock.now + Self.persistence
        var service = Int.random(in: services.indices, using: &random)
        var pause = 0.1
        while true {
            let (record, answer) = await attempt(question, service)
            let isFinal = record.status.map { $0 < 500 && $0 != 429 && $0 != 409 && $0 != 408 } ?? false
            let body = try? answer?.json()
            if isFinal || !question.mayRepeat || ContinuousClock.now > deadline || Task.isCancelled { return (record, body) }
            let asked = Double(min(1, answer?.retryAfter?.components.seconds ?? 0))
            let wait = max(pause * Double.random(in: 0.5...1.5, using: &random), asked)
            pause = min(2, pause * 2)
            service = (service + 1) % services.count
            do { try await Task.sleep(for: .seconds(wait)) } catch { return (record, body) }  // the run is being ended
        }
    }

    /// Sends the request several times at the same moment, like a client that sends it twice by mistake.
    func askTogether(_ question: Question, times: Int) async {
        await withDiscardingTaskGroup { group in
            for number in 0..<times { group.addTask { _ = await attempt(question, number % services.count) } }
        }
    }

    private func attempt(_ question: Question, _ service: Int) async -> (ClientRecord, PushAPI.Answer?) {
        var record = question.record
        record.id = ledgers.nextID()
        tally.change { $0.open += 1 }
        record.service = services[service].name
        record.sentAt = now()
        let call = PushAPI.Call(question.method, question.path, json: question.body, idempotencyKey: record.key)
        let answer = await caller.ask(call, at: services[service].url, key: apps.first { $0.slug == record.app }?.key)
        if let answer {
            record.answeredAt = now()
            record.status = answer.status
            record.retryAfter = answer.retryAfter.map { Int($0.components.seconds) }
            read(answer, into: &record)
        } else {
            record.gaveUpAt = now()
        }
        ledgers.note(record)
        tally.change { count in
            count.open -= 1
            switch record.status {
            case nil: count.unanswered += 1
            case 200, 201, 202, 204: count.answered += 1
            default:
                count.answered += 1
                count.refused += 1
            }
            if record.kind == .send, record.status == 202 { count.accepted += 1 }
        }
        return (record, answer)
    }

    private func read(_ answer: PushAPI.Answer, into record: inout ClientRecord) {
        guard (200..<300).contains(answer.status), let body = try? answer.json() else { return }
        record.epoch = body["owner_epoch"]?.integerValue
        record.fence = body["fence"]?.stringValue.flatMap { ClientRecord.Fence(rawValue: $0) }
        let id = body["id"]?.stringValue.flatMap { PushID($0) }
        switch record.kind {
        case .send:
            record.notification = id
            record.lane = body["lane"]?.stringValue.flatMap { Lane(rawValue: $0) } ?? record.lane
        case .hold: record.hold = id
        default: break
        }
    }
}
