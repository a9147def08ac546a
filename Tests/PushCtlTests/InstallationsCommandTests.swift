import ArgumentParser
import PushAPI
import StrictJSON
import Testing

@testable import PushCtl

@Suite("The output about installations")
struct InstallationsCommandTests {
    private static let record = """
        {"id":"i1","user":"ada","owner_epoch":2,"registered_at":"2026-01-01T00:00:00.000Z","app_version":"3.1","tags":["red"],\
        "app_tags":["blue"],"fence":"effective","tokens":[{"hint":"…00beef","purpose":"alert","environment":"production","state":"active",\
        "registered_at":"2026-01-01T00:00:00.000Z"},{"hint":"…00cafe","purpose":"voip","environment":"sandbox","state":"retired",\
        "registered_at":"2026-01-01T00:00:00.000Z","retired_at":"2026-01-02T00:00:00.000Z","retired_reason":"gone"}]}
        """

    private static func parse(_ text: String) throws -> JSONValue { try JSONValue.parse(Array(text.utf8)) }

    @Test("A list shows who, where and with what, and only active tokens") func list() throws {
        let rows = [try Self.parse(Self.record), try Self.parse(#"{"id":"i2","user":null,"tokens":[]}"#)]
        #expect(
            installationTable(rows).description == """
                INSTALLATION  USER  ACTIVE TOKENS     LAST REGISTERED           APP  SYSTEM  TAGS
                i1            ada   alert/production  2026-01-01T00:00:00.000Z  3.1  -       red,app:blue
                i2            -     none              -                         -    -
                """)
    }

    @Test("One installation shows its retired tokens too, and why they are") func show() throws {
        let record = try Self.parse(Self.record)
        #expect(installationFacts(record).hasPrefix("i1, signed in: ada, owner epoch 2, fence effective\nregistered_at 2026"))
        #expect(
            tokenTable(record, isFull: false).description == """
                TOKEN    PURPOSE  ENVIRONMENT  STATE    REGISTERED                RETIRED                   WHY
                …00beef  alert    production   active   2026-01-01T00:00:00.000Z  -                         -
                …00cafe  voip     sandbox      retired  2026-01-01T00:00:00.000Z  2026-01-02T00:00:00.000Z  gone
                """)
    }

    @Test("History shows what APNs answered") func history() throws {
        let entries = [
            try Self.parse(
                """
                {"at":"2026-01-02T00:00:00.000Z","event":"token_retired","token":{"hint":"…00beef","purpose":"alert",\
                "environment":"production"},"status":410,"reason":"Unregistered","apns_timestamp":"2026-01-01T00:00:00.000Z"}
                """),
            try Self.parse(#"{"at":"2026-01-01T00:00:00.000Z","event":"signed_in","user":"ada"}"#),
        ]
        #expect(
            historyTable(entries).description == """
                WHEN                      EVENT          USER  TOKEN                     OTHER INSTALLATION  REASON            APNS SINCE
                2026-01-02T00:00:00.000Z  token_retired  -     …00beef alert/production  -                   410 Unregistered  \
                2026-01-01T00:00:00.000Z
                2026-01-01T00:00:00.000Z  signed_in      ada   -                         -                   -                 -
                """)
    }

    @Test(
        "A token among the arguments is refused in words that do not repeat it, also in the app's place",
        arguments: [["shop", "00c0ffee"], [String(repeating: "00c0ffee", count: 8)]])
    func misplacedToken(arguments: [String]) throws {
        let error = #expect(throws: (any Error).self) { try PushCommand.parseAsRoot(["installations", "search"] + arguments) }
        let words = PushCommand.message(for: try #require(error))
        #expect(words.contains("--token-file") && !words.contains("00c0ffee"))
    }

    @Test("Names are safe in a path and a query") func encoding() {
        #expect("ada/1 ü+&".percentEncoded == "ada%2F1%20%C3%BC%2B%26")
        #expect("\n".percentEncoded == "%0A")
    }
}
