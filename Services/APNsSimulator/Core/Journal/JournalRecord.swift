/// One request, compact: a benchmark's journal must not cost more than its pushes.
struct JournalRecord {
    let time: Int64
    let connection: UInt32
    let stream: Int32
    let token: TokenKey?
    let id: MessageID
    let topic: [UInt8]
    let type: PushType?
    let environment: SimulatorEnvironment
    let action: ScriptedAnswer.Action
    let answer: Answer
    let isShown: Bool
    /// When the answer was handed to its connection, UNIX milliseconds; nil before, and if it never left.
    var answeredAt: Int64?
    var loss: AnswerLoss?
    /// See ``NotificationContent/marker``.
    let marker: Int64?
    /// What a Live Activity's push did on its device.
    let activity: ActivityResult?

    init(
        time: Int64, connection: UInt32, stream: Int32, token: TokenKey?, id: MessageID, topic: [UInt8],
        type: PushType?, environment: SimulatorEnvironment, action: ScriptedAnswer.Action, answer: Answer, isShown: Bool,
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

    init(_ facts: PushFacts, id: MessageID, _ step: ScriptedAnswer, _ receipt: Receipt?, _ origin: RequestOrigin, _ now: Int64) {
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
        isShown = receipt?.reception == .shown
        activity = receipt?.activity
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
    /// Of the answer: the sender's as it came, or one made for it, in capitals.
    package let apnsID: String
    /// The same in lower case, to compare by.
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
