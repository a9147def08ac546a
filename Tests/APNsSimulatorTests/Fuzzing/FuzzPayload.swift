@testable import APNsSimulator

/// A payload, and what a device does with it: sent to its own token, to a start token and to an update token.
enum FuzzPayload {
    private static let now: Int64 = 1_800_000_000_000

    static func run(_ bytes: [UInt8]) {
        guard let content = DeviceContent(payload: bytes), let (phone, start) = tokens else { return }
        let world = World(unknownDevices: .reject, journalCapacity: 4, clock: { now })
        var device = TokenRecord.Installation(environment: .production, state: .installed)
        device.startTokens = [(start, content.activity?.attributesType ?? "Ride")]
        world.put(device, for: phone, now: now)
        let local = World.LocalStart(id: "1", topic: [], attributesType: "Ride", attributes: "{}", contentState: nil, updates: .token)
        _ = world.start(local, on: phone, now: now)
        guard let update = world.activities(of: phone, now: now)?.activities.first?.updateToken.flatMap({ TokenKey(hex: $0) }) else {
            return
        }
        var facts = PushFacts()
        facts.topic = Array(("com.example.shop" + ServerPushType.liveactivity.topicSuffix).utf8)
        facts.type = .liveactivity
        facts.content = PayloadReader.Reading(content)
        for token in [phone, start, update] {
            facts.token = token
            let origin = RequestOrigin(environment: .production, connection: 1, stream: 1)
            let (step, _) = world.settle(facts, id: MessageID(high: 1, low: 2), refusal: nil, from: origin, now: now)
            precondition(step.answer.isAccepted, "a device refused a push")
        }
        for moment in [now, now + 13 * 3_600_000] {
            let activities = world.activities(of: phone, now: moment)?.activities ?? []
            precondition(moment == now || activities.allSatisfy { $0.state == .dismissed }, "an activity stays for ever")
            _ = world.inbox(of: phone, now: moment)
        }
    }

    private static let tokens = TokenKey(hex: "aa").flatMap { phone in TokenKey(hex: "bb").map { (phone, $0) } }
}
