import ChaosLedger
import PushModel
import TestSupport

/// What became of a flood's requests. A request that is shed counts in its second; every other one has an entry.
struct FloodBook {
    struct Question {
        /// The numbers of its app and its user.
        let app: Int
        let user: Int
        let marker: Int64
        let sentAt: Int64
    }

    struct Entry {
        enum End {
            case answered(at: Int64, status: Int, retryAfter: Int?, notification: PushID?)
            /// No answer will come.
            case gaveUp(at: Int64)
        }

        let question: Question
        /// The number of the token service.
        let service: Int
        let end: End
    }

    struct Second {
        var sample = SampleRecord.Flood(at: 0, shed: 0, unsent: 0, longest: 0)
        var accepted = 0
        var unanswered = 0
    }

    private(set) var accepted = 0
    private(set) var entries: [Entry] = []
    private var second = Second()

    mutating func answered(_ question: Question, by service: Int, _ answer: HTTPAnswerReader, at moment: Int64) {
        if answer.status == 429 || answer.status == 503, answer.retryAfter != nil {
            second.sample.shed += 1
            second.sample.longest = max(second.sample.longest, moment - question.sentAt)
            return
        }
        let isAccepted = answer.status == 202
        let end = Entry.End.answered(
            at: moment, status: answer.status, retryAfter: answer.retryAfter, notification: isAccepted ? Self.id(in: answer.body) : nil)
        entries.append(Entry(question: question, service: service, end: end))
        guard isAccepted else { return }
        accepted += 1
        second.accepted += 1
    }

    mutating func gaveUp(_ question: Question, of service: Int, at moment: Int64) {
        entries.append(Entry(question: question, service: service, end: .gaveUp(at: moment)))
        second.unanswered += 1
    }

    /// Requests that were due and found no connection free.
    mutating func unsent(_ count: Int) { second.sample.unsent += count }

    /// Ends a second, and returns its sums.
    mutating func endSecond(at moment: Int64) -> Second {
        defer { second = Second() }
        second.sample.at = moment
        return second
    }

    /// The notification's id in the answer 202.
    private static func id(in body: [UInt8]) -> PushID? {
        let name = Array(#""id":""#.utf8)
        guard let place = body.indices.first(where: { body[$0...].starts(with: name) }) else { return nil }
        return PushID(ascii: body[(place + name.count)...].prefix(36))
    }
}
