import Foundation
import Testing

@testable import PushClient

@Suite struct PushNotificationTests {
    private func notification(_ json: String) throws -> PushNotification { try PushNotification(json: Data(json.utf8)) }

    @Test func everyKeyOfAps() throws {
        let source = PushSource(notification: UUID(), job: 12)
        let notification = try notification(
            """
            {"aps": {"alert": {"title": "T", "subtitle-loc-key": "S", "subtitle-loc-args": ["a"], "body": "B", "launch-image": "L"},
              "badge": 3, "sound": {"critical": 1, "name": "x.caf", "volume": 0.5}, "thread-id": "t", "category": "c",
              "content-available": 1, "mutable-content": 1, "interruption-level": "time-sensitive", "relevance-score": 0.25,
              "target-content-id": "w", "filter-criteria": "f", "of-a-later-system": {}},
             "push-receipt": {"notification": "\(source.notification.uuidString.lowercased())", "job": 12}, "order": {"id": 7}}
            """)
        let aps = notification.aps
        #expect(aps.alert?.title == .plain("T"))
        #expect(aps.alert?.subtitle == .localized(key: "S", arguments: ["a"]))
        #expect(aps.alert?.body == .plain("B"))
        #expect(aps.alert?.launchImage == "L")
        #expect(aps.badge == 3)
        #expect(aps.sound?.name == "x.caf" && aps.sound?.isCritical == true && aps.sound?.volume == 0.5)
        #expect(aps.threadID == "t" && aps.category == "c")
        #expect(aps.isContentAvailable && aps.isMutableContent && !aps.isSilent)
        #expect(aps.interruptionLevel == .timeSensitive && aps.relevanceScore == 0.25)
        #expect(aps.targetContentID == "w" && aps.filterCriteria == "f")
        #expect(notification.source == source)

        struct Part: Decodable {
            struct Order: Decodable { var id: Int }
            var order: Order
        }
        #expect(try notification.decode(Part.self).order.id == 7)
    }

    @Test func aKeyOfTheAppsOwnNamesNoSource() throws {
        #expect(try notification(#"{"aps": {}, "push-receipt": "mine"}"#).source == nil)
        #expect(try notification(#"{"aps": {}}"#).source == nil)
    }

    @Test func theShortForms() throws {
        let aps = try notification(#"{"aps": {"alert": "Hello", "sound": "default", "interruption-level": "of-a-later-system"}}"#).aps
        #expect(aps.alert?.body == .plain("Hello"))
        #expect(aps.sound?.name == "default" && aps.sound?.isCritical == false)
        #expect(aps.interruptionLevel == nil)
        #expect(try notification(#"{"aps": {"content-available": 1}}"#).aps.isSilent)
        #expect(try notification(#"{"container-identifier": "x"}"#).aps == APS())
    }

    @Test func aLiveActivity() throws {
        let aps = try notification(
            """
            {"aps": {"event": "end", "timestamp": 1800000000, "stale-date": 1800000100, "dismissal-date": 1800000200,
              "content-state": {"score": 1}, "attributes-type": "Game", "relevance-score": 75,
              "alert": {"title": {"loc-key": "K", "loc-args": ["1"]}, "body": "B", "sound": "s"}}}
            """
        ).aps
        #expect(aps.activity?.event == .end)
        #expect(aps.activity?.timestamp == Date(timeIntervalSince1970: 1_800_000_000))
        #expect(aps.activity?.staleDate == Date(timeIntervalSince1970: 1_800_000_100))
        #expect(aps.activity?.dismissalDate == Date(timeIntervalSince1970: 1_800_000_200))
        #expect(aps.activity?.attributesType == "Game")
        #expect(aps.alert?.title == .localized(key: "K", arguments: ["1"]))
    }

    @Test func aMalformedPayloadIsAFault() {
        for json in ["", "[]", #"{"aps": 1}"#] {
            #expect(throws: PushNotification.Malformed.self) { try notification(json) }
        }
    }

    @Test(arguments: [
        #""badge": "three""#, #""sound": 1"#, #""alert": []"#, #""alert": {"title": 1}"#, #""thread-id": 1"#, #""content-available": "1""#,
        #""mutable-content": []"#, #""interruption-level": 1"#, #""relevance-score": "high""#, #""event": "of-a-later-system""#,
    ])
    func anOddValueCostsNoTap(odd: String) throws {
        let aps = try notification(#"{"aps": {"category": "ORDER", \#(odd)}}"#).aps
        var expected = APS()
        expected.category = "ORDER"
        #expect(aps == expected)
    }

    @Test func theDictionaryOfACallback() throws {
        let read = try PushNotification(userInfo: ["aps": ["alert": ["title": "T"], "badge": 2] as [String: Any], "order": 7])
        #expect(read.aps.alert?.title == .plain("T") && read.aps.badge == 2)
        #expect(throws: PushNotification.Malformed.self) { try PushNotification(userInfo: ["date": Date()]) }
    }

    @Test func theForeground() throws {
        func decide(_ aps: String, thread: String? = nil) throws -> ForegroundPresentation {
            ForegroundPresentation.decide(try notification(#"{"aps": {\#(aps)}}"#).aps, visibleThread: thread)
        }
        #expect(try decide(#""alert": "x""#) == .everything)
        #expect(try decide(#""alert": "x", "thread-id": "a""#, thread: "a") == ForegroundPresentation(setsBadge: true))
        #expect(try decide(#""alert": "x", "thread-id": "a""#, thread: "b") == .everything)
        #expect(try decide(#""alert": "x""#, thread: "a") == .everything)
        #expect(try decide(#""interruption-level": "passive""#) == ForegroundPresentation(isListed: true, setsBadge: true))
        #expect(try decide(#""thread-id": "a", "interruption-level": "critical""#, thread: "a") == .everything)
    }
}
