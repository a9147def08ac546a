import PushModel

extension NotificationContent {
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
