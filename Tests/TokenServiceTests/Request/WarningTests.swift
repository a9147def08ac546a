import PushModel
import Testing
import TokenServiceSending

@Suite("What is legal but doubtful")
struct WarningTests {
    @Test("Each doubt is reported at its place", arguments: doubts)
    func warns(body: String, warnings: [String]) throws {
        let parsed = try ParsedRequest(#"{"to":{"user":"ada"},\#(body)}"#)
        #expect(parsed.problems == [])
        #expect(parsed.warnings == warnings)
    }

    private static let update = #""event":"update","content_state":{}"#

    static let doubts: [(String, [String])] = [
        (#""content":{"alert":"a"}"#, []),
        (#""content":{"content_available":true}"#, []),
        (#""content":{"content_available":true},"ttl_seconds":600"#, []),
        (#""content":{"content_available":true},"ttl_seconds":599"#, ["/ttl_seconds time_critical_background"]),
        (#""content":{"content_available":true},"expires_at":"2026-11-21T12:05:00Z""#, ["/expires_at time_critical_background"]),
        (#""content":{"content_available":true},"urgent":true"#, ["/urgent time_critical_background"]),
        (#""content":{"alert":"a","interruption_level":"time-sensitive"}"#, ["/content/interruption_level expiry_not_stated"]),
        (#""payload":{"aps":{"alert":"a","interruption-level":"critical"}}"#, ["/payload/aps/interruption-level expiry_not_stated"]),
        (#""content":{"alert":"a","interruption_level":"time-sensitive"},"ttl_seconds":60"#, []),
        (#""content":{"alert":"a","interruption_level":"active"}"#, []),
        (#""push_type":"voip","payload":{"call":1}"#, ["/apns_expiration voip_stored"]),
        (#""push_type":"voip","payload":{"call":1},"ttl_seconds":60"#, []),
        (#""push_type":"voip","payload":{"call":1},"apns_expiration":0"#, []),
        (#""push_type":"pushtotalk","payload":{"aps":{}}"#, []),
        (#""push_type":"pushtotalk","payload":{"aps":{}},"apns_expiration":1795262500"#, ["/apns_expiration pushtotalk_stored"]),
        (#""content":{"alert":"a"},"ttl_seconds":60,"apns_expiration":1796990400"#, ["/apns_expiration stored_past_expiry"]),
        (#""content":{"alert":"a"},"ttl_seconds":60,"apns_expiration":1795262461"#, ["/apns_expiration stored_past_expiry"]),
        (#""content":{"alert":"a"},"ttl_seconds":60,"apns_expiration":1795262460"#, []),
        (#""content":{"alert":"a"},"ttl_seconds":60,"apns_expiration":0"#, []),
        (#""content":{"alert":"a"},"expires_at":"2026-11-21T12:01:00.5Z","apns_expiration":1795262461"#, []),
        (
            #""content":{"alert":"a"},"expires_at":"2026-11-21T12:01:00.5Z","apns_expiration":1795262462"#,
            ["/apns_expiration stored_past_expiry"]
        ),
        (#""content":{"alert":"a"},"apns_expiration":1796990400"#, []),
        (#""content":{\#(update)},"priority":10"#, ["/priority live_activity_budget"]),
        (#""content":{\#(update)}"#, []),
        (#""content":{\#(update),"alert":"a"},"priority":10"#, []),
        (#""content":{"event":"end"},"priority":5"#, ["/content/content_state live_activity_without_state"]),
        (#""content":{"event":"end","content_state":{},"dismissal_date":"2026-11-21T16:00:00Z"}"#, []),
        (
            #""content":{"event":"end","content_state":{},"dismissal_date":"2026-11-21T16:00:01Z"}"#,
            ["/content/dismissal_date late_dismissal"]
        ),
        (
            #""payload":{"aps":{"alert":"a","order/id":7,"content_available":1}}"#,
            ["/payload/aps/order~1id ignored_key", "/payload/aps/content_available ignored_key"]
        ),
        (
            #""payload":{"aps":{"event":"update","timestamp":1,"content-state":{},"sound":"s"}},"push_type":"liveactivity","priority":5"#,
            ["/payload/aps/sound ignored_key"]
        ),
        (#""push_type":"widgets","content":{"content_changed":true,"badge":1}"#, ["/content/badge ignored_key"]),
        // Apple's keys in another place than Apple's.
        (
            #""payload":{"aps":{"alert":"a"},"sound":"s","badge":1,"interruption-level":"active","x/y":1}"#,
            ["/payload/sound misplaced_key", "/payload/badge misplaced_key", "/payload/interruption-level misplaced_key"]
        ),
        (#""payload":{"aps":{"content-available":1},"alert":"a"}"#, ["/payload/alert misplaced_key"]),
        (
            #""content":{"alert":"a","custom":{"category":"news","event":"start","timestamp":1}}"#,
            ["/content/custom/category misplaced_key"]
        ),
        (#""push_type":"voip","payload":{"alert":"a"},"apns_expiration":0"#, []),
        (
            #""payload":{"aps":{"alert":{"body":"b","interruption-level":"active","sound":"s","tittle":"t","action-loc-key":"k"}}}"#,
            [
                "/payload/aps/alert/interruption-level misplaced_key", "/payload/aps/alert/sound misplaced_key",
                "/payload/aps/alert/tittle ignored_key",
            ]
        ),
        (
            #"""
            "payload":{"aps":{"event":"update","timestamp":1,"content-state":{},"alert":{"body":"b","sound":"s"}}},\#
            "push_type":"liveactivity"
            """#,
            []
        ),
        (#""content":{"alert":{"body":"b","title_loc_args":["a"]}}"#, ["/content/alert/title_loc_args arguments_without_key"]),
        (#""payload":{"aps":{"alert":{"loc-key":"k","loc-args":["a"]}}}"#, []),
        (
            #""content":{"alert":"a"},"locales":{"de":{"content":{"alert":"a","interruption_level":"critical"}}}"#,
            ["/locales/de/content/interruption_level expiry_not_stated"]
        ),
    ]

    @Test("From the fourth background push of an hour on") func frequency() throws {
        let background = try #require(try ParsedRequest(content: #"{"content_available":true}"#).request)
        #expect(background.warnings(recentBackgroundPushes: 2) == [])
        #expect(background.warnings(recentBackgroundPushes: 3) == [NotificationWarning(.frequentBackground, at: "/to")])
        let alert = try #require(try ParsedRequest(content: #"{"alert":"a"}"#).request)
        #expect(alert.warnings(recentBackgroundPushes: 9) == [])
    }
}
