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

    @Test(
        "A lookup knows the other spellings of a language: the script of a Chinese region, and old codes",
        arguments: [
            ("zh_TW", ["zh-tw", "zh-hant-tw", "zh-hant", "zh"]), ("zh-Hant-HK", ["zh-hant-hk", "zh-hk", "zh-hant", "zh"]),
            ("zh_MO", ["zh-mo", "zh-hant-mo", "zh-hant", "zh"]), ("zh_CN", ["zh-cn", "zh-hans-cn", "zh-hans", "zh"]),
            ("zh-Hans-TW", ["zh-hans-tw", "zh-hans", "zh"]), ("zh", ["zh"]), ("iw_IL", ["iw-il", "he-il", "iw", "he"]),
            ("he", ["he", "iw"]), ("id_ID", ["id-id", "in-id", "id", "in"]), ("nb_NO", ["nb-no", "no-no", "nb", "no"]),
            ("no", ["no", "nb"]), ("de_AT", ["de-at", "de"]),
        ])
    func otherSpellings(text: String, expected: [String]) { #expect(LocaleTag(text)?.lookup == expected) }

    @Test(
        "An identifier is cut at its first extension",
        arguments: [
            ("de_DE@calendar=buddhist;currency=EUR;numbers=latn;rg=atzzzz;fw=monday;hc=h23", "de_DE"), ("de-DE-u-ca-buddhist", "de-DE"),
            ("de_DE_u_ca_buddhist", "de_DE"), ("zh-Hant-TW-x-private", "zh-Hant-TW"), ("de", "de"), ("en_US_POSIX", "en_US_POSIX"),
            ("", ""), ("de-", "de-"), ("x-private", "x-private"), ("de-u", "de-u"),
        ])
    func withoutExtensions(text: String, expected: String) { #expect(LocaleTag.withoutExtensions(text) == expected) }

    @Test(
        "A word is no language", arguments: [("german", false), ("Deutsch", false), ("de", true), ("haw-US", true), ("en_US_POSIX", true)])
    func languages(text: String, expected: Bool) { #expect(LocaleTag(text)?.namesLanguage == expected) }
}
