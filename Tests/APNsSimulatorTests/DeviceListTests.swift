import StrictJSON
import Testing

@testable import APNsSimulator

@Suite("The list of devices", .timeLimit(.minutes(5)))
struct DeviceListTests {
    @Test("A list of devices is searched, filtered, cut and counted")
    func list() async throws {
        try await withControl { control in
            let devices = [
                ("aa01", #"{"environment":"production","name":"Ada's phone"}"#), ("aa02", #"{"environment":"production","online":false}"#),
                ("bb03", #"{"environment":"sandbox","name":"Bo & Co","state":"uninstalled"}"#),
            ]
            for (token, body) in devices { try await control.call("PUT", "/v1/devices/" + token, body) }
            let client = try control.test.client()
            #expect(try client.send(control.test.push().to("aa01")).status == 200)

            let expected: [(query: String, tokens: [String], matching: Int64)] = [
                ("", ["aa02", "aa01", "bb03"], 3), ("?limit=1", ["aa02"], 3), ("?search=ADA", ["aa01"], 1),
                ("?search=AA0", ["aa02", "aa01"], 2),
                ("?search=bo%20%26%20c", ["bb03"], 1), ("?search=nothing", [], 0), ("?only=off", ["aa02"], 1), ("?only=gone", ["bb03"], 1),
                ("?only=notified", ["aa01"], 1), ("?only=gone&search=ada", [], 0),
            ]
            for (query, tokens, matching) in expected {
                let answer = try await control.call("GET", "/v1/devices" + query)
                #expect(answer.json?["devices"]?.arrayValue?.map { $0["token"]?.stringValue } == tokens, "\(query)")
                #expect(answer.json?["matching"]?.integerValue == matching && answer.json?["total"]?.integerValue == 3, "\(query)")
                #expect(answer.json?["devices"]?[0]?["groups"] == nil, "\(query)")
            }
            for query in ["?only=on", "?limit=0", "?groups=101", "?name=Ada"] {
                #expect(try await control.call("GET", "/v1/devices" + query).status == 400, "\(query)")
            }
        }
    }

    @Test("The list shows the newest groups of each device, like the inbox")
    func groups() async throws {
        try await withControl { control in
            try await control.call("PUT", "/v1/devices/" + TestPush.token, #"{"environment":"production"}"#)
            let client = try control.test.client()
            for thread in ["a", "b", "c", "a"] {
                let body = #"{"aps":{"alert":"to \#(thread)","thread-id":"\#(thread)"}}"#
                #expect(try client.send(control.test.push().body(body)).status == 200)
            }
            let device = try await control.call("GET", "/v1/devices?groups=2").json?["devices"]?[0]
            #expect(device?["group_count"]?.integerValue == 3)
            let groups = try #require(device?["groups"]?.arrayValue)
            #expect(groups.map { $0["thread_id"]?.stringValue } == ["c", "a"])
            #expect(groups.map { $0["count"]?.integerValue } == [1, 2])
            #expect(groups.map { $0["newest"]?["body"]?.stringValue } == ["to c", "to a"])
            let inbox = try await control.call("GET", "/v1/devices/" + TestPush.token + "/inbox").json?["groups"]?.arrayValue
            #expect(inbox?.map { $0["thread_id"]?.stringValue } == ["b", "c", "a"])
            #expect(inbox?.last?["newest_apns_id"]?.stringValue == groups.last?["newest"]?["apns_id"]?.stringValue)
        }
    }
}
