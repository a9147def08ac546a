import PushModel
import Testing

@Suite("A dispatcher's report about its credentials")
struct CredentialReportTests {
    @Test("The documented example reads as its value and is what is written") func matchesTheContract() throws {
        let file = try Fixture.bytes("credential-report.v1.json")
        let report = CredentialReport(
            id: PushID(high: 0x0198_0c5e_9a11_7b02, low: 0x8c3d_4e5f_6071_8293), source: "/push/dispatcher/dispatcher-0",
            time: 1_782_214_201_125,
            credentials: [
                .init(kind: .key, id: "DEMO123456", environment: .production, apps: [try Sample.app()], refusal: "InvalidProviderToken"),
                .init(
                    kind: .certificate, id: "bank-2026", environment: .sandbox,
                    apps: [try #require(AppSlug("bank")), try #require(AppSlug("bank-beta"))]),
            ])
        #expect(try CredentialReport(decoding: file) == report)
        #expect(try String(decoding: report.encoded(), as: UTF8.self) == Fixture.compact(file))
    }

    @Test(
        "The decoder refuses an invalid report and names the field",
        arguments: [
            ("[]", "v"), (#"{"data":{"v":1}}"#, "type"), (#"{"type":"push.dispatcher.credentials.v1","data":{"v":1}}"#, "id"),
            (
                #"""
                {"type":"push.dispatcher.credentials.v1","id":"01980c5e-9a11-7b02-8c3d-4e5f60718293","source":"s",\#
                "time":"2026-06-23T11:30:01Z","data":{"v":1,"credentials":[{}]}}
                """#,
                "credentials"
            ),
        ])
    func refusesOthers(_ text: String, _ field: String) {
        let error = #expect(throws: MessageError.self) { try CredentialReport(decoding: Array(text.utf8)) }
        #expect(error?.code == .invalidField(field))
    }
}
