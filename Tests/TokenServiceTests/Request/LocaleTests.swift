import PushModel
import Testing
import TokenServiceSending

@Suite("Which locale's content a device gets")
struct LocaleTests {
    private static func content(_ locales: String...) -> RenderedContent {
        RenderedContent(
            payload: Array("default".utf8),
            variants: locales.sorted().map { RenderedContent.Variant(locale: $0, payload: Array($0.utf8)) })
    }

    @Test(
        "A device gets the variant with the longest beginning of its locale that there is",
        arguments: [
            ("de", "de"), ("de-DE", "de"), ("de_DE", "de"), ("DE", "de"), ("de-AT", "de-at"), ("de_AT", "de-at"), ("de-AT-1996", "de-at"),
            ("de_AT@currency=EUR", "de-at"), ("zh-Hant-TW", "zh-hant"), ("zh-Hans-CN", "default"), ("zh_TW", "zh-hant"), ("zh", "default"),
            ("en", "default"), ("en_US_POSIX", "en-us"), ("deu", "default"), ("d", "default"), ("", "default"), ("-", "default"),
            ("de-x-bern", "de"), ("de--AT", "default"), (nil, "default"),
        ] as [(String?, String)])
    func longestBeginning(locale: String?, expected: String) {
        let content = Self.content("de", "de-at", "zh-hant", "en-us")
        #expect(String(decoding: content.variant(for: locale), as: UTF8.self) == expected)
        #expect(content.variantLocale(for: locale) == (expected == "default" ? nil : expected))
    }

    @Test("Without variants every device gets the default") func noVariants() {
        #expect(Self.content().variant(for: "de") == Array("default".utf8))
    }
}
