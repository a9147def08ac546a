import PushModel

/// The content, rendered once at acceptance.
package struct RenderedContent: Equatable, Sendable {
    /// The APNs body for devices that no variant fits; a given `payload` is kept byte for byte.
    package var payload: [UInt8]
    /// In ascending order of locale.
    package var variants: [Variant]

    package init(payload: [UInt8], variants: [Variant] = []) {
        self.payload = payload
        self.variants = variants
    }

    /// The same with another `timestamp`, for states whose timestamp is the platform's (``ContentDraft/isStamped``): their payloads begin
    /// with it.
    /// - Parameter seconds: UNIX seconds.
    /// - Returns: nil if it has not as many digits as the one before.
    package func stamped(with seconds: Int64) -> RenderedContent? {
        guard let payload = Self.stamped(payload, with: seconds) else { return nil }
        var changed = RenderedContent(payload: payload)
        for variant in variants {
            guard let payload = Self.stamped(variant.payload, with: seconds) else { return nil }
            changed.variants.append(Variant(locale: variant.locale, payload: payload))
        }
        return changed
    }

    private static let beforeStamp = Array(#"{"aps":{"timestamp":"#.utf8)

    private static func stamped(_ payload: [UInt8], with seconds: Int64) -> [UInt8]? {
        let digits = payload.dropFirst(beforeStamp.count).prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        let stamp = Array("\(seconds)".utf8)
        guard payload.starts(with: beforeStamp), digits.count == stamp.count else { return nil }
        var changed = payload
        changed.replaceSubrange(digits.indices, with: stamp)
        return changed
    }

    /// The APNs body for installations of one locale.
    package struct Variant: Equatable, Sendable {
        /// BCP 47, lower case: `de`, `de-at`, `zh-hant`.
        package var locale: String
        package var payload: [UInt8]

        package init(locale: String, payload: [UInt8]) {
            self.locale = locale
            self.payload = payload
        }
    }
}

extension RenderedContent {
    /// The APNs body for an installation: that of its locale, else of the longest beginning of its locale, else the default.
    /// - Parameter locale: As the device reported it; case does not count, and `_` equals `-`.
    package func variant(for locale: String?) -> [UInt8] { variants[index(for: locale)]?.payload ?? payload }

    /// The locale of the variant that ``variant(for:)`` gives; nil for the default.
    package func variantLocale(for locale: String?) -> String? { variants[index(for: locale)]?.locale }

    private func index(for locale: String?) -> Int? {
        guard !variants.isEmpty, let tag = locale.flatMap({ LocaleTag($0) }) else { return nil }
        for range in tag.lookup {
            if let index = variants.firstIndex(where: { $0.locale == range }) { return index }
        }
        return nil
    }
}

extension Array {
    fileprivate subscript(_ index: Int?) -> Element? { index.map { self[$0] } }
}
