package import Configuration

/// Settings read once at start, and checked: one that is set but wrong is an error, never the default. An empty value counts as not set.
/// Every error is a ``ConfigurationError``.
extension ConfigReader {
    /// - Parameters:
    ///   - expected: The text after "must be" if it is missing.
    ///   - isSecret: Keeps the value out of access reports.
    package func text(_ key: String, _ expected: String, isSecret: Bool = false) throws(ConfigurationError) -> String {
        guard let text = optionalText(key, isSecret: isSecret) else {
            throw ConfigurationError(key, expected: expected + ", and is not set")
        }
        return text
    }

    package func text(_ key: String, default fallback: String) -> String { optionalText(key) ?? fallback }

    package func optionalText(_ key: String, isSecret: Bool = false) -> String? {
        string(forKey: ConfigKey(key), isSecret: isSecret).flatMap { $0.isEmpty ? nil : $0 }
    }

    package func integer(_ key: String, default fallback: Int, in range: ClosedRange<Int>) throws(ConfigurationError) -> Int {
        guard let number = try optionalInteger(key, in: range) else { return fallback }
        return number
    }

    package func optionalInteger(_ key: String, in range: ClosedRange<Int>) throws(ConfigurationError) -> Int? {
        let text = optionalText(key)
        guard let number = int(forKey: ConfigKey(key)) ?? text.flatMap({ Int($0) }) else {
            guard let text else { return nil }
            throw ConfigurationError(key, expected: Self.sentence(range), given: text)
        }
        guard range.contains(number) else { throw ConfigurationError(key, expected: Self.sentence(range), given: "\(number)") }
        return number
    }

    /// A number from 0 to 1.
    package func fraction(_ key: String, default fallback: Double) throws(ConfigurationError) -> Double {
        guard let text = optionalText(key) else { return fallback }
        guard let number = Double(text), (0...1).contains(number) else {
            throw ConfigurationError(key, expected: "a number from 0 to 1", given: text)
        }
        return number
    }

    /// `true` or `false`, and the provider's synonyms (`yes`, `no`, `1`, `0`).
    package func flag(_ key: String, default fallback: Bool) throws(ConfigurationError) -> Bool {
        if let flag = bool(forKey: ConfigKey(key)) { return flag }
        guard let text = optionalText(key) else { return fallback }
        guard let flag = Bool(text) else { throw ConfigurationError(key, expected: "true or false", given: text) }
        return flag
    }

    /// A whole number of seconds.
    package func seconds(_ key: String, default fallback: Int, in range: ClosedRange<Int>) throws(ConfigurationError) -> Duration {
        .seconds(try integer(key, default: fallback, in: range))
    }

    /// One of an enumeration's raw values.
    package func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ key: String, default fallback: Choice
    ) throws(ConfigurationError) -> Choice {
        guard let text = optionalText(key) else { return fallback }
        guard let choice = Choice(rawValue: text) else {
            throw ConfigurationError(key, expected: "one of " + Choice.allCases.map(\.rawValue).joined(separator: ", "), given: text)
        }
        return choice
    }

    private static func sentence(_ range: ClosedRange<Int>) -> String {
        "a whole number from \(range.lowerBound) to \(range.upperBound)"
    }

    // MARK: URLs

    /// A URL with a host. It may hold a password by mistake, so an error does not show it.
    /// - Parameter credentials: the setting that holds a user and a password for it. Neither may stand in the URL, where they would be
    ///   ignored.
    package func url(
        _ key: String, schemes: [String], default fallback: String? = nil, credentials: String? = nil
    ) throws(ConfigurationError) -> SettingURL {
        let expected = "a URL beginning with " + schemes.map { $0 + "://" }.joined(separator: " or ") + " and naming a host"
        guard let text = optionalText(key, isSecret: true) ?? fallback else {
            throw ConfigurationError(key, expected: expected + ", and is not set")
        }
        let url: SettingURL
        do throws(SettingURL.Fault) { url = try SettingURL.parse(text) } catch {
            throw ConfigurationError(key, expected: "\(expected) (this one \(error))")
        }
        guard schemes.contains(url.scheme) else { throw ConfigurationError(key, expected: expected) }
        guard !url.hasUser else {
            let place = credentials.map { ": \(ConfigurationError.variable($0)) names the file with them" } ?? ""
            throw ConfigurationError(key, expected: expected + " without a user and a password\(place)")
        }
        return url
    }
}
