/// What is to happen to one stream, and under which `apns-id` it is answered.
struct PendingStep {
    let stream: Int32
    let id: MessageID
    let idWasGenerated: Bool
    let step: ScriptedAnswer

    var delay: Duration { step.delay }
}
