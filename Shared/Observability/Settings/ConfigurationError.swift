/// A setting that is missing or wrong, as one sentence for the person who set it.
package struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The environment variable.
    package let variable: String
    /// The expected value, to follow "must be".
    package let expected: String
    /// The given value. Nil for a secret, or if there is none.
    package let given: String?

    /// - Parameter key: As in the configuration, `http.port`.
    package init(_ key: String, expected: String, given: String? = nil) {
        variable = Self.variable(key)
        self.expected = expected
        self.given = given
    }

    package var description: String {
        "\(variable) must be \(expected)" + (given.map { ", but is \"\($0)\"." } ?? ".")
    }

    /// The environment variable of a key, as swift-configuration's provider spells it: `apns.timeoutMs` is `APNS_TIMEOUT_MS`.
    package static func variable(_ key: String) -> String {
        var name = ""
        var previous: Character = "_"
        for character in key {
            if previous.isLowercase && character.isUppercase { name += "_" }
            name += character.isLetter || character.isNumber ? character.uppercased() : "_"
            previous = character
        }
        return name
    }
}
