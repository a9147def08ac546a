package import Configuration

/// A setting of a program, declared once: from the declaration come its reading, its place in `--help` and its row in the handbook.
///
/// A program reads its settings at start. A setting that is set but wrong is a ``ConfigurationError``, never the default. An empty value
/// counts as not set.
package struct Setting<Value: Sendable>: DocumentedSetting {
    package let key: String
    package let fallback: String
    package let values: String
    package let meaning: String
    fileprivate let reading: @Sendable (ConfigReader) throws(ConfigurationError) -> Value

    private init(
        _ key: String, _ fallback: String, _ values: String, _ meaning: String,
        reading: @escaping @Sendable (ConfigReader) throws(ConfigurationError) -> Value
    ) {
        self.key = key
        self.fallback = fallback
        self.values = values
        self.meaning = meaning
        self.reading = reading
    }
}

extension ConfigReader {
    package func read<Value>(_ setting: Setting<Value>) throws(ConfigurationError) -> Value { try setting.reading(self) }

    package func isSet(_ setting: some DocumentedSetting) -> Bool { text(setting.key, isSecret: true) != nil }

    /// - Parameter isSecret: Keeps the value out of access reports.
    func text(_ key: String, isSecret: Bool = false) -> String? {
        string(forKey: ConfigKey(key), isSecret: isSecret).flatMap { $0.isEmpty ? nil : $0 }
    }

    fileprivate func integer(_ key: String, in range: ClosedRange<Int>) throws(ConfigurationError) -> Int? {
        let text = text(key)
        guard let number = int(forKey: ConfigKey(key)) ?? text.flatMap({ Int($0) }) else {
            guard let text else { return nil }
            throw ConfigurationError(key, expected: range.expectation, given: text)
        }
        guard range.contains(number) else { throw ConfigurationError(key, expected: range.expectation, given: "\(number)") }
        return number
    }
}

extension ClosedRange<Int> {
    fileprivate var words: String { "\(lowerBound) to \(upperBound)" }
    fileprivate var expectation: String { "a whole number from \(lowerBound) to \(upperBound)" }
}

// MARK: Numbers

extension Setting<Int> {
    /// - Parameter shown: The default in words, if it depends on the machine or on another setting.
    package init(_ key: String, _ standard: Int, shown: String? = nil, in range: ClosedRange<Int>, _ meaning: String) {
        self.init(key, shown ?? "\(standard)", range.words, meaning) { config throws(ConfigurationError) in
            try config.integer(key, in: range) ?? standard
        }
    }
}

extension Setting<Int?> {
    package init(optional key: String, in range: ClosedRange<Int>, _ meaning: String) {
        self.init(key, "none", range.words, meaning) { config throws(ConfigurationError) in try config.integer(key, in: range) }
    }
}

extension Setting<Duration> {
    package static func seconds(_ key: String, _ standard: Int, in range: ClosedRange<Int>, _ meaning: String) -> Self {
        Self(key, "\(standard)", range.words, meaning) { config throws(ConfigurationError) in
            .seconds(try config.integer(key, in: range) ?? standard)
        }
    }

    package static func milliseconds(_ key: String, _ standard: Int, in range: ClosedRange<Int>, _ meaning: String) -> Self {
        Self(key, "\(standard)", range.words, meaning) { config throws(ConfigurationError) in
            .milliseconds(try config.integer(key, in: range) ?? standard)
        }
    }
}

extension Setting<Double> {
    /// A number from 0 to 1.
    package init(fraction key: String, _ standard: Double, _ meaning: String) {
        self.init(key, "\(standard)", "0 to 1", meaning) { config throws(ConfigurationError) in
            guard let text = config.text(key) else { return standard }
            guard let number = Double(text), (0...1).contains(number) else {
                throw ConfigurationError(key, expected: "a number from 0 to 1", given: text)
            }
            return number
        }
    }
}

// MARK: Words

extension Setting<String> {
    /// - Parameters:
    ///   - shown: The default in words, if it depends on the machine.
    ///   - values: The rule for the text, if the reader checks one.
    package init(_ key: String, _ standard: String, shown: String? = nil, values: String = "", _ meaning: String) {
        self.init(key, shown ?? standard, values, meaning) { config in config.text(key) ?? standard }
    }

    /// A text that may hold a password.
    /// - Parameter expected: The text after "must be" if it is missing.
    package init(required key: String, _ expected: String, _ meaning: String) {
        self.init(key, "required", expected, meaning) { config throws(ConfigurationError) in
            guard let text = config.text(key, isSecret: true) else {
                throw ConfigurationError(key, expected: expected + ", and is not set")
            }
            return text
        }
    }
}

extension Setting<String?> {
    /// - Parameter shown: What holds if it is not set.
    package init(optional key: String, shown: String = "none", _ meaning: String) {
        self.init(key, shown, "", meaning) { config in config.text(key) }
    }
}

extension Setting where Value: RawRepresentable<String> & CaseIterable {
    /// One of an enumeration's raw values.
    package init(_ key: String, _ standard: Value, _ meaning: String) {
        let words = Value.allCases.map(\.rawValue)
        self.init(key, standard.rawValue, words.map { "`\($0)`" }.joined(separator: ", "), meaning) { config throws(ConfigurationError) in
            guard let text = config.text(key) else { return standard }
            guard let choice = Value(rawValue: text) else {
                throw ConfigurationError(key, expected: "one of " + words.joined(separator: ", "), given: text)
            }
            return choice
        }
    }
}

extension Setting<Bool> {
    /// `true` or `false`, and the provider's synonyms (`yes`, `no`, `1`, `0`).
    package init(_ key: String, _ standard: Bool, _ meaning: String) {
        self.init(key, "\(standard)", "`true`, `false`", meaning) { config throws(ConfigurationError) in
            if let flag = config.bool(forKey: ConfigKey(key)) { return flag }
            guard let text = config.text(key) else { return standard }
            guard let flag = Bool(text) else { throw ConfigurationError(key, expected: "true or false", given: text) }
            return flag
        }
    }
}

// MARK: URLs

extension Setting<SettingURL?> {
    /// A URL with a host. It may hold a password by mistake, so an error does not show it.
    /// - Parameters:
    ///   - shown: What holds if it is not set.
    ///   - credentials: The setting that holds a user and a password for it. Neither may stand in the URL, where they would be ignored.
    package init(
        url key: String, schemes: [String], shown: String = "none", credentials: (any DocumentedSetting)? = nil, _ meaning: String
    ) {
        let beginnings = schemes.map { $0 + "://" }
        let expected = "a URL beginning with " + beginnings.joined(separator: " or ") + " and naming a host"
        self.init(key, shown, beginnings.map { "`\($0)host:port`" }.joined(separator: " or "), meaning) {
            config throws(ConfigurationError) in
            guard let text = config.text(key, isSecret: true) else { return nil }
            let url: SettingURL
            do throws(SettingURL.Fault) { url = try SettingURL.parse(text) } catch {
                throw ConfigurationError(key, expected: "\(expected) (this one \(error))")
            }
            guard schemes.contains(url.scheme) else { throw ConfigurationError(key, expected: expected) }
            guard !url.hasUser else {
                let place = credentials.map { ": \($0.variable) names the file with them" } ?? ""
                throw ConfigurationError(key, expected: expected + " without a user and a password\(place)")
            }
            return url
        }
    }
}

/// A setting that is missing or wrong, as one sentence for the person who set it.
package struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The environment variable.
    package let variable: String
    /// The expected value, to follow "must be".
    package let expected: String
    /// The given value. Nil for a secret, or if there is none.
    package let given: String?

    /// - Parameter key: The key as in the configuration, `http.port`.
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
