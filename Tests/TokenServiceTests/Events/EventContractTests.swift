import Foundation
import PushModel
import StrictJSON
import Testing
import TokenServiceApps
import TokenServiceEvents
import TokenServiceRegistry

/// The examples in `PushModel.docc/Events` are what the code writes: each is compared with what it makes of the same facts.
@Suite("Every state change has its example")
struct EventContractTests {
    private static let contracts = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "Shared/PushModel/PushModel.docc/Events")

    private static let time: Int64 = 1_782_214_201_125

    private static func event(_ topic: String) throws -> PlatformEvent {
        let slug = try #require(AppSlug("shop"))
        let word = String(topic.split(separator: ".")[1])
        if EventTopic.notifications.contains(topic) {
            let notification = try #require(PushID("01980c5e-7d20-7c41-9b1e-2f6a0c3d5e71"))
            let isLast = NotificationChange.isLast(word)
            let counts = ["completed": ["accepted": 1, "token_gone": 1], "expired": ["expired": 2], "no_targets": [:]]
            let change = NotificationChange(
                notification: notification, event: word, lane: "now", pushType: "alert", acceptedAt: time - 1125,
                expiresAt: time - 1125 + 86_400_000, total: word == "scheduled" ? nil : word == "no_targets" ? 0 : 2,
                counts: isLast ? counts[word] : nil)
            return change.event(id: PlatformEvent.id(of: .notifications, row: 4711, at: time), app: 1, slug: slug, at: time)
        }
        let installation = try #require(PushID("9b2d1c54-0e3f-4a6b-8c7d-5e4f3a2b1c01"))
        if topic == EventTopic.ping {
            let id = try #require(PushID("01980c5e-9a11-7b02-8c3d-4e5f60718293"))
            let webhook = try #require(PushID("01980c5e-0000-7b02-8c3d-4e5f60718200"))
            return PlatformEvent.ping(id: id, webhook: webhook, app: 1, slug: slug, at: time)
        }
        let event = try #require(HistoryEntry.Event.allCases.first { $0.topic == topic })
        return try entry(event, installation).event(id: PlatformEvent.id(of: .installations, row: 4712, at: time), slug: slug)
    }

    private static func entry(_ event: HistoryEntry.Event, _ installation: PushID) throws -> HistoryEntry {
        var entry = HistoryEntry(app: 1, installation: installation, event: event, at: time)
        let token = HistoryEntry.Token(id: nil, hint: "…a1b2c3", environment: "production", purpose: "alert")
        if event != .stale, event != .throttled, event != .tokenDoubtful, !event.rawValue.hasPrefix("token_re") { entry.ownerEpoch = 3 }
        if event == .registered || event == .throttled || event.topic.hasPrefix("token.") { entry.token = token }
        switch event {
        case .signedOut: entry.reason = "logout"
        case .tokenMovedHere, .tokenMovedAway: entry.otherInstallation = PushID("9b2d1c54-0e3f-4a6b-8c7d-5e4f3a2b1c02")
        case .throttled:
            (entry.status, entry.reason) = (429, "TooManyRequests")
            entry.delivery = PushID("3f1c9a52-6b0e-5d1f-8a44-90b7c2d1e6f1")
        case .tokenDoubtful: entry.token?.purpose = "activity_start:Ride"
        case .tokenRetired:
            (entry.status, entry.reason, entry.apnsTimestamp) = (410, "Unregistered", 1_782_100_000_000)
            entry.delivery = PushID("3f1c9a52-6b0e-5d1f-8a44-90b7c2d1e6f1")
        default: break
        }
        return entry
    }

    @Test(
        "The example of each event equals what the service writes",
        arguments: EventTopic.notifications + EventTopic.installations + [EventTopic.ping]
    )
    func writtenExamples(_ topic: String) throws {
        let file = Self.contracts.appending(path: "\(topic).v1.json")
        let bytes = try Self.event(topic).encoded()
        #expect(try Self.sorted(Data(contentsOf: file)) == Self.sorted(Data(bytes)))
        #expect(try JSONValue.parse(bytes).text("type") == PlatformEvent.type(topic))
    }

    private static func sorted(_ json: Data) throws -> Data {
        try JSONSerialization.data(withJSONObject: JSONSerialization.jsonObject(with: json), options: [.sortedKeys])
    }

    @Test("There is no example of an event that the service does not publish") func noOtherExamples() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.contracts.path)
        #expect(Set(names) == Set((EventTopic.notifications + EventTopic.installations + [EventTopic.ping]).map { "\($0).v1.json" }))
    }
}
