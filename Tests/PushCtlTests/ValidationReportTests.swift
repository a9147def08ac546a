import StrictJSON
import Testing

@testable import PushCtl

@Suite("The output of `pushctl validate`")
struct ValidationReportTests {
    private static func report(
        _ more: String = "", displays: String = "", topic: String = "com.example.shop",
        payload: String = #"{ "aps" : {"alert":"hi","n":1.0} }"#
    ) throws
        -> ValidationReport
    {
        let text = #"""
            {"push_type":"alert","topic":"\#(topic)","bundle_id":"com.example.shop","priority":10,"lane":"bulk",
            "local_time":"2026-11-22T09:00","expires_at":"2026-11-23T21:00:00.000Z",
            "payloads":[{"locale":null,"bytes":38,"maximum_bytes":4096,"payload":\#(payload)},
            {"locale":"de","bytes":23,"maximum_bytes":4096,"payload":{"aps":{"alert":"hallo"}}},
            {"locale":"de-at","bytes":24,"maximum_bytes":4096,"payload":{"aps":{"alert":"servus"}}}],
            "warnings":[{"pointer":"/local_time","code":"local_time_passed","detail":"this time has passed"}],
            "audience":{"devices":12,"deliveries":13,\#(displays)"is_lower_bound":true,"reasons":[
            {"reason":"no_token","effect":"not_sent","devices":3,"detail":"no token"}]}\#(more)}
            """#
        let bytes = Array(text.utf8)
        return ValidationReport(answer: try JSONValue.parse(bytes), bytes: bytes)
    }

    @Test("Everything stands in tables") func tables() throws {
        #expect(
            try Self.report().text == """
                PUSH TYPE  TOPIC             PRIORITY  LANE  DUE                     EXPIRES
                alert      com.example.shop  10        bulk  2026-11-22T09:00 local  2026-11-23T21:00:00.000Z

                LOCALE   BYTES  OF    PAYLOAD
                default  38     4096  { "aps" : {"alert":"hi","n":1.0} }
                de       23     4096  {"aps":{"alert":"hallo"}}
                de-at    24     4096  {"aps":{"alert":"servus"}}

                devices: at least 12, deliveries: at least 13
                DEVICES  EFFECT    REASON    MEANING
                3        not_sent  no_token  no token

                warning: /local_time: this time has passed (local_time_passed)
                """)
    }

    @Test("One line counts the devices that show an alert") func displays() throws {
        let text = try Self.report(displays: #""displays":{"fully":7,"quietly":1,"not_at_all":4,"unknown":0},"#).text
        #expect(
            text.contains(
                """
                devices: at least 12, deliveries: at least 13
                shown: fully 7, quietly 1, not at all 4, unknown 0
                DEVICES  EFFECT
                """))
    }

    @Test(
        "The simulator's file is the payload with the app's name, byte for byte otherwise",
        arguments: [
            (nil, #"{"Simulator Target Bundle":"com.example.shop", "aps" : {"alert":"hi","n":1.0} }"#),
            ("fr", #"{"Simulator Target Bundle":"com.example.shop", "aps" : {"alert":"hi","n":1.0} }"#),
            ("de-CH", #"{"Simulator Target Bundle":"com.example.shop","aps":{"alert":"hallo"}}"#),
            ("de_AT", #"{"Simulator Target Bundle":"com.example.shop","aps":{"alert":"servus"}}"#),
        ] as [(String?, String)])
    func simulator(locale: String?, expected: String) throws {
        let file = try Self.report().simulatorFile(locale: locale)
        #expect(String(decoding: file, as: UTF8.self) == expected)
        #expect(try JSONValue.parse(file)["Simulator Target Bundle"]?.stringValue == "com.example.shop")
    }

    @Test(
        "The app's name stands there once, whatever the payload has in its place",
        arguments: [
            (
                #"{ "Simulator Target Bundle" : "com.other" , "aps" : {}}"#,
                #"{"Simulator Target Bundle":"com.example.shop" , "aps" : {}}"#
            ),
            (
                #"{"a":1, "Simulator Target Bundle":["com.other"], "aps":{}}"#,
                #"{"Simulator Target Bundle":"com.example.shop","a":1, "aps":{}}"#
            ),
            (#"{"aps":{}, "Simulator\u0020Target Bundle":null }"#, #"{"Simulator Target Bundle":"com.example.shop","aps":{} }"#),
            (#"{"Simulator Target Bundle":7}"#, #"{"Simulator Target Bundle":"com.example.shop"}"#),
        ])
    func oneBundle(payload: String, expected: String) throws {
        let file = try Self.report(payload: payload).simulatorFile(locale: nil)
        #expect(String(decoding: file, as: UTF8.self) == expected)
        // A name that stands twice is refused.
        #expect(try JSONValue.parse(file)["Simulator Target Bundle"]?.stringValue == "com.example.shop")
    }

    @Test("A push that does not go to the app itself has no such file") func otherTopics() throws {
        #expect(throws: CommandFailure.self) { try Self.report(topic: "com.example.shop.voip").simulatorFile(locale: nil) }
        let empty = try Self.report(payload: "{}").simulatorFile(locale: nil)
        #expect(String(decoding: empty, as: UTF8.self) == #"{"Simulator Target Bundle":"com.example.shop"}"#)
    }
}
