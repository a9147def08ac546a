import PushAPI
import StrictJSON

/// The result of one line of a file of notifications.
struct BatchResult: Sendable {
    let line: Int
    /// A receipt or a problem of the service; nil for a line that is not JSON.
    let answer: JSONValue?
    /// Why the line is not JSON.
    var reason = ""

    var isAccepted: Bool { answer?["id"] != nil }

    /// The line's number and its result, in words for people.
    var text: String {
        guard let answer else { return "\(line)  refused  not JSON, \(reason)" }
        guard isAccepted else {
            return "\(line)  refused  \(PushAPI.Problem(status: Int(answer["status"]?.integerValue ?? 0), answer).explanation)"
        }
        return "\(line)  \(receiptLine(answer))\(answer["replay"]?.boolValue == true ? "  accepted before" : "")"
    }

    /// The service's answer with the line's number, for programs.
    var json: String {
        var writer = JSONWriter()
        writer.object { object in
            object.field("line", line)
            if let answer {
                for (name, value) in answer.objectValue ?? [] {
                    object.name(name)
                    object.value(value)
                }
            } else {
                object.field("code", "malformed_json")
                object.field("detail", reason)
                object.field("retryable", false)
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

/// One file of notifications, sent group by group.
struct BatchRun {
    /// Sends the body of one request and gives its answer. After 429 and 503 it is sent again: the service did nothing.
    let send: (_ body: [UInt8]) async throws -> JSONValue
    /// How often one request is tried.
    let maximumAttempts: Int
    let pause: (_ attempt: Int) async throws -> Void
    /// Each line's result, in the file's order.
    let onResult: (BatchResult) throws -> Void

    /// - Returns: How many lines were refused.
    /// - Throws: ``CommandFailure``, which names the line to resume from.
    func run(_ lines: BatchLines) async throws -> Int {
        var lines = lines
        var refused = 0
        while let group = try lines.nextGroup() {
            for result in try await results(of: group) {
                if !result.isAccepted { refused += 1 }
                try onResult(result)
            }
        }
        return refused
    }

    private func results(of group: [BatchLine]) async throws -> [BatchResult] {
        let items = group.compactMap { line -> [UInt8]? in if case .item(_, let json) = line { json } else { nil } }
        var answers: [JSONValue] = []
        if !items.isEmpty {
            let (first, last) = (group[0].number, group[group.count - 1].number)
            do {
                answers = try await answer(to: BatchLines.body(of: items))["results"]?.arrayValue ?? []
                guard answers.count == items.count else { throw CommandFailure("the answer has \(answers.count) results") }
            } catch let error where error is CommandFailure || error is PushAPIError {
                throw CommandFailure(
                    "\(error); lines \(first) to \(last) have no result, go on with --from-line \(first). Of these lines, one without an "
                        + "idempotency_key may be sent twice")
            }
        }
        var remaining = answers.makeIterator()
        return group.map { line in
            switch line {
            case .item(let number, _): BatchResult(line: number, answer: remaining.next())
            case .unreadable(let number, let reason): BatchResult(line: number, answer: nil, reason: reason)
            }
        }
    }

    private func answer(to body: [UInt8]) async throws -> JSONValue {
        var attempt = 1
        while true {
            do { return try await send(body) } catch PushAPIError.refused(let problem) where [429, 503].contains(problem.status) {
                guard attempt < maximumAttempts else {
                    throw CommandFailure("given up after \(counted(attempt, "attempt", "attempts")): \(problem)")
                }
                try await pause(attempt)
                attempt += 1
            }
        }
    }
}
