import PushModel
import Testing

@Suite("The words of the domain, as text and as bytes")
struct ValueTests {
    @Test("An id is read in either case and written in lower case")
    func readsIDs() throws {
        let id = try #require(PushID("01980C5E-7d20-7c41-9B1E-2f6a0c3d5e71"))
        #expect(id.description == "01980c5e-7d20-7c41-9b1e-2f6a0c3d5e71")
        #expect(PushID(bytes: id.bytes) == id)
        #expect(PushID(ascii: Array("xx\(id)".utf8)[2...]) == id)
    }

    @Test("A token of any length is written to its last digit", arguments: 1...9)
    func writesTokens(count: Int) throws {
        let token = try #require(DeviceToken(bytes: (1...count).map { UInt8($0 * 27) }))
        var appended = Array("x".utf8)
        token.appendHex(to: &appended)
        #expect(String(decoding: appended, as: UTF8.self) == "x" + token.hex)
    }

    @Test(
        "A text that is not exactly an id is refused",
        arguments: [
            "", "01980c5e7d207c419b1e2f6a0c3d5e71", "01980c5e-7d20-7c41-9b1e-2f6a0c3d5e7", "01980c5e-7d20-7c41-9b1e-2f6a0c3d5e711",
            "01980c5e-7d20-7c41-9b1e_2f6a0c3d5e71", "01980c5g-7d20-7c41-9b1e-2f6a0c3d5e71", "01980c5/-7d20-7c41-9b1e-2f6a0c3d5e71",
            "01980c5:-7d20-7c41-9b1e-2f6a0c3d5e71", "01980c5@-7d20-7c41-9b1e-2f6a0c3d5e71", "01980c5`-7d20-7c41-9b1e-2f6a0c3d5e71",
            "{1980c5e-7d20-7c41-9b1e-2f6a0c3d5e71",
        ])
    func refusesOtherIDs(_ text: String) {
        #expect(PushID(text) == nil)
    }

    @Test("Every byte comes back from hex, and no other byte counts as a digit")
    func readsHex() throws {
        let all = [UInt8](0...255)
        let token = try #require(DeviceToken(bytes: all))
        #expect(DeviceToken(hex: token.hex) == token)
        #expect(DeviceToken(hex: token.hex.uppercased()) == token)
        var appended: [UInt8] = []
        token.appendHex(to: &appended)
        #expect(String(decoding: appended, as: UTF8.self) == token.hex)
        let digits = Set("0123456789abcdefABCDEF".utf8)
        for byte in UInt8(0)...255 {
            #expect((DeviceToken(asciiHex: [UInt8(ascii: "0"), byte]) != nil) == digits.contains(byte), "byte \(byte)")
        }
    }

    @Test(
        "A token is of any even length up to its limit",
        arguments: [(0, false), (1, false), (2, true), (3, false), (64, true), (160, true), (512, true), (514, false)])
    func limitsTokens(digits: Int, isToken: Bool) {
        #expect((DeviceToken(hex: String(repeating: "a", count: digits)) != nil) == isToken)
    }

    @Test("However a token is printed, only its end shows")
    func hidesTokens() throws {
        let token = try #require(DeviceToken(hex: "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"))
        var dumped = ""
        dump([token], to: &dumped)
        for text in ["\(token)", String(reflecting: token), "\([token])", dumped] {
            #expect(text.contains("…1de8f0"))
            #expect(!text.contains("991de8f0") && !text.contains("252"))
        }
    }

    @Test("Ids made later are greater, and random ones are of their version")
    func ordersIDs() {
        #expect(PushID.timeOrdered(milliseconds: 1_782_214_200_250) < PushID.timeOrdered(milliseconds: 1_782_214_200_251))
        let (ordered, random) = (Array("\(PushID.timeOrdered(milliseconds: 1_782_214_200_250))"), Array("\(PushID.random())"))
        #expect(ordered[14] == "7" && random[14] == "4")
        #expect("89ab".contains(ordered[19]) && "89ab".contains(random[19]))
    }

    @Test(
        "A moment and its text",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (1_782_214_201_125, "2026-06-23T11:30:01.125Z"), (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"), (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (-2_203_891_200_000, "1900-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"), (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
        ])
    func writesMoments(_ milliseconds: Int64, _ text: String) {
        #expect(RFC3339.text(milliseconds: milliseconds) == text)
        #expect(RFC3339.milliseconds(text) == milliseconds)
    }

    @Test(
        "Moments beyond four digits of year are written as the nearest that fits",
        arguments: [(Int64.max, "9999-12-31T23:59:59.999Z"), (.min, "0000-01-01T00:00:00.000Z")])
    func clampsMoments(_ milliseconds: Int64, _ text: String) {
        #expect(RFC3339.text(milliseconds: milliseconds) == text)
    }

    @Test(
        "Any spelling of RFC 3339 is read",
        arguments: [
            ("1970-01-01t00:00:01z", 1000), ("1970-01-01T01:00:00+01:00", 0), ("1969-12-31T22:30:00.5-01:30", 500),
            ("1970-01-01T00:00:00.1239999Z", 123),
            ("1970-01-01T00:00:60Z", 60_000), ("1970-01-01T00:00:00-00:00", 0),
        ])
    func readsMoments(_ text: String, _ milliseconds: Int64) {
        #expect(RFC3339.milliseconds(text) == milliseconds)
    }

    @Test(
        "A text that is not a moment is refused",
        arguments: [
            "", "2026-06-23", "2026-06-23 11:30:01Z", "2026-06-23T11:30:01", "2026-6-23T11:30:01Z", "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z", "2026-00-10T00:00:00Z",
            "2026-04-31T00:00:00Z", "2026-06-00T00:00:00Z", "2026-06-23T24:00:00Z", "2026-06-23T11:60:00Z", "2026-06-23T11:30:61Z",
            "2026-06-23T11:30:01.Z",
            "2026-06-23T11:30:01+0100", "2026-06-23T11:30:01+24:00", "2026-06-23T11:30:01Zx", "+026-06-23T11:30:01Z",
        ])
    func refusesMoments(_ text: String) {
        #expect(RFC3339.milliseconds(text) == nil)
    }

    @Test(
        "Slugs follow their rule",
        arguments: [
            ("shop", true), ("a", true), ("a-1", true), ("", false), ("1a", false), ("-a", false), ("a.b", false), ("A", false),
            ("é", false),
        ])
    func checksSlugs(_ text: String, _ isSlug: Bool) {
        #expect((AppSlug(text) != nil) == isSlug)
        #expect(AppSlug(String(repeating: "a", count: 64)) != nil && AppSlug(String(repeating: "a", count: 65)) == nil)
    }
}
