import StrictJSON

/// One step of a script: the result of one push, instead of the state of its device.
package struct ScriptedAnswer: Sendable, Equatable {
    package enum Action: String, Sendable, CaseIterable {
        /// Answer with the status and reason.
        case answer
        /// Never answer; the stream stays open (docs/apns.md, Answers).
        case silence
        /// RST_STREAM with `resetCode`.
        case reset
        /// Close the TCP connection without a notice.
        case close
        /// GOAWAY that leaves this push and all later ones unprocessed; it carries the reason as JSON.
        case goAway = "goaway"
        /// Half of the answer's bytes, and then no more bytes on this connection, not even to a PING.
        case halfFrame = "half_frame"
    }

    /// RFC 9113 section 7: the server did not process the request.
    package static let refusedStream: UInt32 = 7

    package var action: Action
    package var answer: StatusAnswer
    /// How long after the request it happens.
    package var delay: Duration
    /// The error code of `reset`, as in RFC 9113 section 7.
    package var resetCode: UInt32

    package init(_ action: Action, answer: StatusAnswer = .accepted, delay: Duration = .zero, resetCode: UInt32 = refusedStream) {
        self.action = action
        self.answer = answer
        self.delay = delay
        self.resetCode = resetCode
    }

    package static let accept = ScriptedAnswer(.answer)
    package static let silence = ScriptedAnswer(.silence)
    package static let close = ScriptedAnswer(.close)

    package static func reject(_ reason: RejectionReason, timestamp: Int64? = nil) -> ScriptedAnswer {
        ScriptedAnswer(.answer, answer: StatusAnswer(reason, timestamp: timestamp))
    }

    /// Any status and any text, known to Apple or not.
    package static func answer(status: Int, reason: String? = nil, timestamp: Int64? = nil) -> ScriptedAnswer {
        ScriptedAnswer(.answer, answer: StatusAnswer(status: status, reason: reason, timestamp: timestamp))
    }

    package static func reset(_ code: UInt32 = refusedStream) -> ScriptedAnswer { ScriptedAnswer(.reset, resetCode: code) }

    package static func goAway(_ reason: RejectionReason? = nil) -> ScriptedAnswer {
        ScriptedAnswer(.goAway, answer: reason.map { StatusAnswer($0) } ?? .accepted)
    }

    package func delayed(by delay: Duration) -> ScriptedAnswer {
        var copy = self
        copy.delay = delay
        return copy
    }
}

/// The results of one token's pushes, in order.
package struct AnswerScript: Sendable, Equatable {
    package enum Ending: String, Sendable, CaseIterable {
        /// After the last answer the device's own state decides again.
        case accept
        /// After the last answer comes the first.
        case `repeat`
    }

    package let answers: [ScriptedAnswer]
    package let ending: Ending
    private var position = 0

    package init(_ answers: [ScriptedAnswer], then ending: Ending = .accept) {
        self.answers = answers
        self.ending = ending
    }

    /// The answer for the next push; nil when the script is over.
    mutating func next() -> ScriptedAnswer? {
        if position == answers.count, ending == .repeat { position = 0 }
        guard position < answers.count else { return nil }
        defer { position += 1 }
        return answers[position]
    }

    /// How many answers of this round are still to come.
    package var remaining: Int { answers.count - position }
}

/// The answer to a request: a status, and for any but 200 a reason, as APNs writes them (Apple: Handling notification responses from APNs).
package struct StatusAnswer: Sendable, Equatable {
    package var status: Int
    /// Verbatim; nil sends an answer without a body, which APNs has been seen to do.
    package var reason: String?
    /// UNIX milliseconds: when the token stopped being valid. APNs sends it with 410 only.
    package var timestamp: Int64?
    /// The most bytes of body in one DATA frame; nil is as many as fit.
    package var frameBytes: Int?

    package static let accepted = StatusAnswer(status: 200)

    package init(status: Int, reason: String? = nil, timestamp: Int64? = nil, frameBytes: Int? = nil) {
        self.status = status
        self.reason = reason
        self.timestamp = timestamp
        self.frameBytes = frameBytes
    }

    package init(_ reason: RejectionReason, timestamp: Int64? = nil) {
        self.init(status: reason.status, reason: reason.rawValue, timestamp: timestamp)
    }

    /// Any success: requests about channels have more than 200, and so may scripts and scenarios.
    package var isAccepted: Bool { (200..<300).contains(status) }

    /// The answer's body; nil if there is none. A GOAWAY carries the same text.
    var body: [UInt8]? {
        guard reason != nil || timestamp != nil else { return nil }
        var writer = JSONWriter(reservingCapacity: 64)
        writer.object { object in
            object.field("reason", reason)
            object.field("timestamp", timestamp)
        }
        return writer.bytes
    }
}
