import PushModel
import StrictJSON
import Testing
import TokenService

@Suite("A refused notification says where the fault is")
struct RefusalTests {
    private static let bodies = [
        #"""
        {"to":{"user":"ada"},"content":{"alert":{"title":"t","body":"b","loc_args":["a"]},"badge":1,"sound":{"critical":true,"name":"n",\#
        "volume":0.5},"category":"c","thread_id":"t","interruption_level":"active","relevance_score":0.5,"mutable_content":true,\#
        "custom":{"x":{"y":[1]}}},"ttl_seconds":60,"collapse_id":"c","priority":10,"lane":"now","supersede_key":"s",\#
        "device_receipts":true,"receipts":"failures"}
        """#,
        #"""
        {"to":{"tags":"beta"},"payload":{"aps":{"alert":"a","url-args":["b"]},"x":1},"locales":{"de":{"content":{"alert":"a"}}},\#
        "local_time":"2026-11-23T09:00","expires_at":"2026-11-26T21:00:00Z"}
        """#,
        #"""
        {"to":{"user":"ada"},"activity":"ride","content":{"event":"start","attributes":{"r":"1"},"attributes_type":"Ride",\#
        "content_state":{"eta":1},"alert":{"title":"t","body":"b"},"stale_date":"2026-11-22T09:00:00Z","input_push_token":true,\#
        "input_push_channel":"dHN0LXNyY2gtY2hubA==","timestamp":"2026-11-21T12:00:00Z"},"urgent":true,"on_unknown":"drop"}
        """#,
        #"""
        {"to":{"activity":"ride","user":"ada"},"content":{"event":"end","content_state":{"eta":1},"dismissal_date":"2026-11-21T13:00:00Z"}}
        """#,
        #"{"to":{"user":"ada","activity_type":"Ride"},"payload":{"aps":{"event":"update","timestamp":1,"content-state":{}}}}"#,
        #"{"to":{"tokens":["00a1b2c3"]},"push_type":"voip","payload":{"call":1},"apns_expiration":0}"#,
        #"{"to":{"users":["ada","bob"]},"content":{"content_available":true},"not_before":"2026-11-21T13:00:00Z"}"#,
    ]
    private static let odd = [
        "null", "true", "0", "-1", "1.5", "1e300", "9223372036854775807", #""""#, #""a\nb""#, #""a\u007f""#, #""x""#, "[]", "{}", "[null]",
        #"{"a":null}"#, "\"\(String(repeating: "a", count: 65))\"", "\"\(String(repeating: "a", count: 129))\"",
        "\"\(String(repeating: "é", count: 3000))\"", #""2026-13-01T00:00:00Z""#,
    ]

    /// Every text in which one value of the tree is another one.
    private static func variants(_ value: JSONValue, _ source: [UInt8]) -> [String] {
        func text(_ value: JSONValue) -> String { String(decoding: source[value.range], as: UTF8.self) }
        let parts: [(before: String, value: JSONValue)]
        switch value.kind {
        case .object(let members): parts = members.map { ("\"\($0.key)\":", $0.value) }
        case .array(let elements): parts = elements.map { ("", $0) }
        default: parts = []
        }
        let isObject = value.objectValue != nil
        let changed = parts.indices.flatMap { index in
            variants(parts[index].value, source).map { variant in
                let texts = parts.indices.map { parts[$0].before + ($0 == index ? variant : text(parts[$0].value)) }
                let list = texts.joined(separator: ",")
                return isObject ? "{\(list)}" : "[\(list)]"
            }
        }
        return odd + changed
    }

    @Test("Every value of a body may be any other: either the request is read, or a fault has its place", arguments: bodies)
    func places(body: String) throws {
        let source = Array(body.utf8)
        #expect(try ParsedRequest(body).problems == [])
        let variants = Self.variants(try JSONValue.parse(source), source)
        #expect(variants.count > Self.odd.count * 5)
        for variant in variants {
            let parsed = try ParsedRequest(variant)
            #expect((parsed.request == nil) == !parsed.problems.isEmpty, "\(variant.prefix(1000)): \(parsed.problems)")
        }
    }
}
