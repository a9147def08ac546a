package import StrictJSON

/// One request, compact: a benchmark's journal must not cost more than its pushes.
struct JournalRecord {
    let time: Int64
    let connection: UInt32
    let stream: Int32
    let token: TokenKey?
    let id: MessageID
    let topic: [UInt8]
    let type: ServerPushType?
    let environment: SimulatorEnvironment
    let action: ScriptedAnswer.Action
    let answer: StatusAnswer
    let isShown: Bool
    /// When the answer was handed to its connection, UNIX milliseconds; nil before, and if it never left.
    var answeredAt: Int64?
    var loss: AnswerLoss?
    /// See ``DeviceContent/marker``.
    let marker: Int64?
    /// What a Live Activity's push did on its device.
    let activity: ActivityResult?

    init(
        time: Int64, connection: UInt32, stream: Int32, token: TokenKey?, id: MessageID, topic: [UInt8],
        type: ServerPushType?, environment: SimulatorEnvironment, action: ScriptedAnswer.Action, answer: StatusAnswer, isShown: Bool,
        answeredAt: Int64? = nil, marker: Int64?, activity: ActivityResult? = nil
    ) {
        self.time = time
        self.connection = connection
        self.stream = stream
        self.token = token
        self.id = id
        self.topic = topic
        self.type = type
        self.environment = environment
        self.action = action
        self.answer = answer
        self.isShown = isShown
        self.answeredAt = answeredAt
        self.marker = marker
        self.activity = activity
    }

    init(_ facts: PushFacts, id: MessageID, _ step: ScriptedAnswer, _ result: DeviceResult?, _ origin: RequestOrigin, _ now: Int64) {
        time = now
        connection = origin.connection
        stream = origin.stream
        token = facts.token
        self.id = id
        topic = facts.topic
        type = facts.type
        environment = origin.environment
        action = step.action
        answer = step.answer
        isShown = result?.reception == .shown
        activity = result?.activity
        answeredAt = step.action == .answer && step.delay == .zero ? now : nil
        marker = facts.content?.marker
    }
}

/// One request as the journal shows it.
package struct JournalEntry: Sendable, Equatable {
    /// 1 for the first request since the start; never used again.
    package let sequence: Int64
    /// When the whole request had arrived, UNIX milliseconds.
    package let time: Int64
    package let environment: SimulatorEnvironment
    /// Counts connections from 1.
    package let connection: Int
    package let stream: Int
    /// Lower-case hex; nil if the path had none that could be read.
    package let token: String?
    /// The id of the answer: the sender's as it came, or one made for it, in capitals.
    package let apnsID: String
    /// The ``apnsID`` in lower case, to compare by.
    package let uuid: String
    package let topic: String
    package let pushType: String?
    /// The action; a status only if that was `answer`.
    package let action: ScriptedAnswer.Action
    package let status: Int?
    package let reason: String?
    package let timestamp: Int64?
    /// A user saw it: false for background pushes, refusals and tokens that no device has.
    package let isShown: Bool
    /// When the answer was handed to its connection, UNIX milliseconds. nil: it is pending, or never left, or the request gets none.
    package let answeredAt: Int64?
    /// Why the answer never left.
    package let loss: AnswerLoss?
    /// The payload's own key `marker`, if it is a number.
    package let marker: Int64?
    /// What a Live Activity's push did on its device, or why it did nothing there.
    package let activity: ActivityResult?

    init(sequence: Int64, _ record: JournalRecord) {
        self.sequence = sequence
        time = record.time
        environment = record.environment
        connection = Int(record.connection)
        stream = Int(record.stream)
        token = record.token?.hex
        apnsID = String(decoding: record.id.text, as: UTF8.self)
        uuid = String(decoding: record.id.lowercased.text, as: UTF8.self)
        topic = String(decoding: record.topic, as: UTF8.self)
        pushType = record.type?.name
        action = record.action
        status = record.action == .answer ? record.answer.status : nil
        reason = record.answer.reason
        timestamp = record.answer.timestamp
        isShown = record.isShown
        answeredAt = record.answeredAt
        loss = record.loss
        marker = record.marker
        activity = record.activity
    }
}

/// A record as the journal file holds it. All numbers are little endian:
///
///     4  length of what follows      8  sequence        8  time, UNIX milliseconds
///     4  connection    4  stream     8, 8  apns-id, most significant half first     4  which of its digits are capitals, the first in bit
///     0 2  status        1  action, its place in `ScriptedAnswer.Action`        1  push type, 255 for none
///     1  marks: 1 answered at once, 2 shown, 4 sandbox, 8 timestamp, 16 token, 32 reason, 64 marker, 128 result of an activity
///     8  timestamp, UNIX milliseconds
///     2  length of the token, 2 of the topic, 2 of the reason; then these, one after the other
///     8  marker, where there is one                       1  result of an activity, where there is one, its place in `ActivityResult`
///
/// New fields may follow the last: a reader goes by the length. What became of a request later is a ``JournalNote``:
///
///     4  length, 17        8  the request's sequence        8  time        1  0 answered, else the place in `AnswerLoss`, from 1
extension JournalRecord {
    private enum Mark {
        static let answered: UInt8 = 1
        static let shown: UInt8 = 2
        static let sandbox: UInt8 = 4
        static let timestamp: UInt8 = 8
        static let token: UInt8 = 16
        static let reason: UInt8 = 32
        static let marker: UInt8 = 64
        static let activity: UInt8 = 128
    }

    /// Their index is the value in the file.
    private static let actions = ScriptedAnswer.Action.allCases
    private static let results = ActivityResult.allCases
    private static let fixedBytes = 63

    func write(sequence: Int64, to bytes: inout [UInt8]) {
        let tokenLength = token?.byteCount ?? 0
        let reasonBytes = answer.reason.map { Array($0.utf8.prefix(0xffff)) } ?? []
        let length = Self.fixedBytes + tokenLength + topic.count + reasonBytes.count + (marker == nil ? 0 : 8) + (activity == nil ? 0 : 1)
        bytes.append(addingCapacity: 4 + length) { output in
            output.write(UInt32(length))
            output.write(sequence)
            output.write(time)
            output.write(connection)
            output.write(stream)
            output.write(id.high)
            output.write(id.low)
            output.write(id.capitals)
            output.write(UInt16(clamping: answer.status))
            output.append(UInt8(Self.actions.firstIndex(of: action) ?? 255))
            output.append(type?.rawValue ?? 255)
            output.append(marks)
            output.write(answer.timestamp ?? 0)
            output.write(UInt16(tokenLength))
            output.write(UInt16(topic.count))
            output.write(UInt16(reasonBytes.count))
            token?.forEachByte { output.append($0) }
            for byte in topic { output.append(byte) }
            for byte in reasonBytes { output.append(byte) }
            if let marker { output.write(marker) }
            if let activity { output.append(UInt8(Self.results.firstIndex(of: activity) ?? 255)) }
        }
    }

    private var marks: UInt8 {
        (answeredAt == nil ? 0 : Mark.answered) | (isShown ? Mark.shown : 0) | (environment == .sandbox ? Mark.sandbox : 0)
            | (answer.timestamp == nil ? 0 : Mark.timestamp) | (token == nil ? 0 : Mark.token) | (answer.reason == nil ? 0 : Mark.reason)
            | (marker == nil ? 0 : Mark.marker) | (activity == nil ? 0 : Mark.activity)
    }

    /// - Parameter bytes: The bytes after the length.
    /// - Returns: nil if this is not a record.
    static func read(_ bytes: Span<UInt8>) -> (sequence: Int64, record: JournalRecord)? {
        guard bytes.count >= fixedBytes else { return nil }
        let marks = bytes[48]
        let (tokenEnd, topicEnd, reasonEnd) = (
            fixedBytes + Int(bytes.number(at: 57, 2)), fixedBytes + Int(bytes.number(at: 57, 2)) + Int(bytes.number(at: 59, 2)),
            fixedBytes + Int(bytes.number(at: 57, 2)) + Int(bytes.number(at: 59, 2)) + Int(bytes.number(at: 61, 2))
        )
        let (hasMarker, hasActivity) = (marks & Mark.marker != 0, marks & Mark.activity != 0)
        let markerEnd = reasonEnd + (hasMarker ? 8 : 0)
        guard bytes.count >= markerEnd + (hasActivity ? 1 : 0), Int(bytes[46]) < actions.count else { return nil }
        let activity = hasActivity && Int(bytes[markerEnd]) < results.count ? results[Int(bytes[markerEnd])] : nil
        let token = marks & Mark.token == 0 ? nil : TokenKey(bytes.extracting(fixedBytes..<tokenEnd))
        let reason = Array(copying: bytes.extracting(topicEnd..<reasonEnd))
        let record = JournalRecord(
            time: Int64(bitPattern: bytes.number(at: 8, 8)), connection: UInt32(bytes.number(at: 16, 4)),
            stream: Int32(truncatingIfNeeded: bytes.number(at: 20, 4)), token: token,
            id: MessageID(high: bytes.number(at: 24, 8), low: bytes.number(at: 32, 8), capitals: UInt32(bytes.number(at: 40, 4))),
            topic: Array(copying: bytes.extracting(tokenEnd..<topicEnd)), type: ServerPushType(rawValue: bytes[47]),
            environment: marks & Mark.sandbox == 0 ? .production : .sandbox, action: actions[Int(bytes[46])],
            answer: StatusAnswer(
                status: Int(bytes.number(at: 44, 2)), reason: marks & Mark.reason == 0 ? nil : String(decoding: reason, as: UTF8.self),
                timestamp: marks & Mark.timestamp == 0 ? nil : Int64(bitPattern: bytes.number(at: 49, 8))),
            isShown: marks & Mark.shown != 0,
            answeredAt: marks & Mark.answered == 0 ? nil : Int64(bitPattern: bytes.number(at: 8, 8)),
            marker: hasMarker ? Int64(bitPattern: bytes.number(at: reasonEnd, 8)) : nil, activity: activity)
        return (Int64(bitPattern: bytes.number(at: 0, 8)), record)
    }
}

extension OutputSpan<UInt8> {
    mutating func write(_ number: some FixedWidthInteger) {
        for shift in stride(from: 0, to: number.bitWidth, by: 8) { append(UInt8(truncatingIfNeeded: number >> shift)) }
    }
}

extension Span<UInt8> {
    func number(at start: Int, _ count: Int) -> UInt64 {
        var value: UInt64 = 0
        for index in 0..<count { value |= UInt64(self[start + index]) << UInt64(8 * index) }
        return value
    }
}

extension JournalEntry {
    /// Writes the entry as the control API and `apns-simulator journal` show it.
    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("sequence", sequence)
            object.field("time", rfc3339(time))
            object.field("environment", environment.rawValue)
            object.field("connection", connection)
            object.field("stream", stream)
            object.field("token", token)
            object.field("apns_id", apnsID)
            object.field("uuid", uuid)
            object.field("topic", topic)
            object.field("push_type", pushType)
            object.field("action", action.rawValue)
            object.field("status", status)
            object.field("reason", reason)
            object.field("timestamp_ms", timestamp)
            object.field("shown", isShown)
            object.field("answered_at", answeredAt.map { rfc3339($0) })
            object.field("lost", loss?.rawValue)
            if let marker { object.field("marker", marker) }
            object.field("activity_result", activity?.rawValue)
        }
    }
}

extension JournalNote {
    /// Writes the note as `apns-simulator journal` shows it.
    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("sequence", sequence)
            if let loss {
                object.field("lost", loss.rawValue)
            } else {
                object.field("answered_at", rfc3339(time))
            }
        }
    }
}
