import PushModel
import Testing

@Suite("Language tags")
struct LocaleTagTests {
    @Test(
        "Every spelling of a tag has one form",
        arguments: [("de", "de"), ("de_AT", "de-at"), ("zh-Hant", "zh-hant"), ("es-419", "es-419"), ("en_US_POSIX@x=y", "en-us-posix")])
    func spelling(text: String, expected: String) { #expect(LocaleTag(text)?.text == expected) }

    @Test(
        "A text that is not a language tag is refused",
        arguments: ["", "d", "-de", "de-", "de--at", "419", "d3", "deutschland", "de-österreich", "de at", "de/at", "@de", "de-\u{212a}"])
    func notATag(text: String) { #expect(LocaleTag(text) == nil) }

    @Test("A lookup drops an extension together with its letter") func lookupOrder() {
        #expect(
            LocaleTag("zh-Hant-CN-x-private1-private2")?.lookup == [
                "zh-hant-cn-x-private1-private2", "zh-hant-cn-x-private1", "zh-hant-cn", "zh-hant", "zh",
            ])
    }
}
