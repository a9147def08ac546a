/// The next action on one stream, and the `apns-id` of its answer.
struct PendingStep {
    let stream: Int32
    let id: MessageID
    let step: ScriptedAnswer
    /// In the journal.
    let sequence: Int64
    /// The answer's own parts if the request was about channels; nil for a push.
    var channels: ChannelReply?

    var delay: Duration { step.delay }
}
