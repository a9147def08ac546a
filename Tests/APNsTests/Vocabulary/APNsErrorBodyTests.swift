import Testing

@testable import APNs

@Suite("The JSON of an error answer")
struct APNsErrorBodyTests {
    @Test(
        "The parser reads the fields that are valid and leaves the others nil",
        arguments: [
            (#"{"reason":"BadDeviceToken"}"#, "BadDeviceToken", Int64?.none),
            (#"{"reason":"Unregistered","timestamp":1700000000123}"#, "Unregistered", 1_700_000_000_123),
            (#"{"timestamp":1.7e12,"reason":"Unregistered"}"#, "Unregistered", 1_700_000_000_000),
            (#"{"timestamp":"1700000000123","reason":"Unregistered"}"#, "Unregistered", 1_700_000_000_123),
            (#"{"reason":"New","extra":{"a":[1,2,{}]},"more":null}"#, "New", nil),
            (#"{"timestamp":1700000000123}"#, nil, 1_700_000_000_123),
            (#"{"reason":12,"timestamp":-5}"#, nil, nil),
            (#"{"reason":""}"#, nil, nil),
            (#"{"reason":"Unregistered","timestamp":"#, nil, nil),
            ("Maximum active streams violated for this endpoint.", nil, nil),
            ("[]", nil, nil),
            ("", nil, nil),
            ("\u{0}\u{1}", nil, nil),
        ])
    func validFields(text: String, reason: String?, timestamp: Int64?) {
        let body = APNsErrorBody(Array(text.utf8))
        #expect(body.reason == reason)
        #expect(body.timestamp == timestamp)
    }

    @Test("The parser keeps no long reason and no long body") func longBodies() {
        #expect(APNsErrorBody(Array(#"{"reason":"\#(String(repeating: "x", count: 500))"}"#.utf8)).reason == nil)
        let padding = String(repeating: " ", count: APNsErrorBody.maximumBytes)
        #expect(APNsErrorBody(Array((#"{"reason":"BadTopic"}"# + padding).utf8)).reason == nil)
    }
}
