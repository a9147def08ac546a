/// What is to happen to one stream, and under which `apns-id` it is answered.
struct PendingStep {
    let stream: Int32
    let id: MessageID
    let step: ScriptedAnswer
    /// In the journal.
    let sequence: Int64
    /// The answer's own parts where the request was about channels; nil for a push.
    var channels: ChannelReply?

    var delay: Duration { step.delay }
}
