/// The content, rendered once at acceptance.
package struct NotificationContent: Equatable, Sendable {
    /// The APNs body for devices that no variant fits; a given `payload` is kept byte for byte.
    package var payload: [UInt8]
    /// In ascending order of locale.
    package var variants: [Variant]

    package init(payload: [UInt8], variants: [Variant] = []) {
        self.payload = payload
        self.variants = variants
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
