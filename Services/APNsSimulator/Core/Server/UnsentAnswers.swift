/// Answers that were handed over and may not have left yet, oldest first. Those that are here when a connection is gone never reached its client.
struct UnsentAnswers {
    struct Answer {
        /// In the journal.
        let sequence: Int64
        let kind: Counters.Kind
        /// The answer has left when this many bytes of the connection have; `max` until it is encrypted.
        fileprivate(set) var end = Int.max
    }

    private(set) var answers: [Answer] = []

    mutating func append(_ sequence: Int64, _ answer: ScriptedAnswer) {
        answers.append(Answer(sequence: sequence, kind: Counters.Kind(answer.answer)))
    }

    /// All answers so far are among the connection's first `end` bytes.
    mutating func noteEncrypted(end: Int) {
        var index = answers.count
        while index > 0, answers[index - 1].end == .max {
            index -= 1
            answers[index].end = end
        }
    }

    /// This many bytes of the connection have left.
    mutating func noteSent(_ bytes: Int) {
        guard let last = answers.last else { return }
        if last.end <= bytes { return answers.removeAll(keepingCapacity: true) }
        answers.removeFirst(answers.firstIndex { $0.end > bytes } ?? 0)
    }

    mutating func takeAll() -> [Answer] {
        defer { answers = [] }
        return answers
    }
}
