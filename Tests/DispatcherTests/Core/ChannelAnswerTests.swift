import APNs
import PushModel
import Testing

@testable import Dispatcher

@Suite("What APNs' answer says about a command")
struct ChannelAnswerTests {
    private func answer(
        _ request: ChannelCommand.Request, _ status: Int, _ reason: String? = nil, channel: String? = nil, body: String = ""
    ) -> ChannelAnswer {
        let command = ChannelCommand(
            id: PushID(high: 1, low: 2), app: Fixture.shop, environment: .sandbox, bundleID: "com.example.shop", request: request,
            expiresAt: Fixture.start)
        return ChannelAnswer(
            command, status: status, reason: reason, APNsChannelContent(channelID: channel, body: Array(body.utf8)), source: "/test",
            now: Fixture.start)
    }

    @Test("A create is done only with the id of the channel") func create() {
        let done = answer(.create(.latest), 201, channel: "AAAA")
        #expect(done.result == .done && done.channelID == "AAAA" && done.storage == .latest)
        for channel in [nil, "", "no base64", "AAAA\r\nx: y"] {
            let lost = answer(.create(.latest), 201, channel: channel)
            #expect(lost.result == .unanswered && lost.reason == "incomplete_answer" && lost.channelID == nil && lost.status == 201)
        }
    }

    @Test("A read is done only with the policy") func read() {
        let channel = Fixture.channel()
        #expect(
            answer(.read(channel), 200, body: #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#).storage == ChannelStorage.none)
        #expect(answer(.read(channel), 200, body: #"{"message-storage-policy":1}"#).storage == .latest)
        for body in ["", "{}", #"{"message-storage-policy":2}"#, #"{"message-storage-policy":"#] {
            #expect(answer(.read(channel), 200, body: body).result == .unanswered, "\(body)")
        }
    }

    @Test("A list is done only as a whole, and passes over what is no id") func list() {
        #expect(answer(.list, 200, body: #"{"channels":[]}"#).channels == [])
        #expect(answer(.list, 200, body: #"{"channels":["AAAA","?","AAEC"]}"#).channels == ["AAAA", "AAEC"])
        for body in ["", "{}", #"{"channels":["AAAA""#, #"{"channels":[1]}"#] {
            #expect(answer(.list, 200, body: body).result == .unanswered, "\(body)")
        }
    }

    @Test(
        "Another status is a refusal with APNs' reason", arguments: [(400, "ChannelNotRegistered"), (429, "TooManyRequests"), (503, nil)])
    func refusals(status: Int, reason: String?) {
        for request in [ChannelCommand.Request.create(.none), .read(Fixture.channel()), .delete(Fixture.channel()), .list] {
            let refused = answer(request, status, reason)
            #expect(refused.result == .refused && refused.status == status && refused.reason == reason)
        }
    }
}
