package import Configuration
package import Logging
import SystemIO

/// A ``Setting`` that names a file, which is checked when the setting is read.
package struct FileSetting<Value: Sendable>: DocumentedSetting {
    package let key: String
    package let fallback: String
    package let meaning: String
    fileprivate let reading: @Sendable (ConfigReader, Logger) throws(ConfigurationError) -> Value

    package var values: String { "" }

    private init(
        _ key: String, _ fallback: String, _ meaning: String,
        reading: @escaping @Sendable (ConfigReader, Logger) throws(ConfigurationError) -> Value
    ) {
        self.key = key
        self.fallback = fallback
        self.meaning = meaning
        self.reading = reading
    }
}

extension FileSetting<String?> {
    /// The path of a file that exists and can be read; nil where the setting is not set.
    /// - Parameters:
    ///   - shown: What holds if it is not set.
    ///   - isSecret: Warns when others than the owner can read the file.
    package init(_ key: String, shown: String = "none", isSecret: Bool = false, _ meaning: String) {
        self.init(key, shown, meaning) { config, logger throws(ConfigurationError) in
            try config.path(key, logger: logger, isSecret: isSecret)
        }
    }

    /// A file that holds one secret: its text without the line feed at its end.
    ///
    /// Warns when others than the owner can read the file. Never shows its content.
    package init(secret key: String, _ meaning: String) {
        self.init(key, "none", meaning) { config, logger throws(ConfigurationError) in try config.secret(key, logger: logger) }
    }
}

extension FileSetting<String> {
    /// The path of a file that exists and can be read.
    package init(required key: String, isSecret: Bool = false, _ meaning: String) {
        self.init(key, "required", meaning) { config, logger throws(ConfigurationError) in
            guard let path = try config.path(key, logger: logger, isSecret: isSecret) else {
                throw ConfigurationError(key, expected: "the path of a readable file, and is not set")
            }
            return path
        }
    }
}

extension ConfigReader {
    /// - Parameter logger: Warns of a secret file that others than its owner can read.
    package func read<Value>(_ setting: FileSetting<Value>, logger: Logger) throws(ConfigurationError) -> Value {
        try setting.reading(self, logger)
    }

    fileprivate func path(_ key: String, logger: Logger, isSecret: Bool) throws(ConfigurationError) -> String? {
        guard let path = text(key) else { return nil }
        do throws(WholeFile.Fault) {
            let mode = try WholeFile.check(path)
            if isSecret, let mode { logger.warn(ofSecretFile: path, mode: mode, setting: ConfigurationError.variable(key)) }
        } catch {
            throw ConfigurationError(key, expected: "the path of a readable file (\(error))", given: path)
        }
        return path
    }

    fileprivate func secret(_ key: String, logger: Logger) throws(ConfigurationError) -> String? {
        guard let path = try path(key, logger: logger, isSecret: true) else { return nil }
        // A larger file is surely the wrong one.
        let maximumBytes = 65_536
        let expected = "the path of a readable text file of 1 to \(maximumBytes) bytes"
        let content: WholeFile
        do throws(WholeFile.Fault) {
            content = try WholeFile(path: path, maximumBytes: maximumBytes)
        } catch {
            throw ConfigurationError(key, expected: "\(expected) (\(error))", given: path)
        }
        guard let text = String(validating: content.bytes, as: UTF8.self)?.trimmingTrailingLineFeeds(), !text.isEmpty else {
            throw ConfigurationError(key, expected: expected, given: path)
        }
        return text
    }
}

extension Logger {
    /// Others than the owner may use a secret file. A warning only: orchestrators mount secrets with modes of their own.
    /// - Parameters:
    ///   - mode: the file's permission bits.
    ///   - setting: the setting or field that names it.
    package func warn(ofSecretFile path: String, mode: UInt32, setting: String) {
        warning(
            "A secret file can be read by others than its owner",
            metadata: ["setting": "\(setting)", "file.path": "\(path)", "file.mode": "\(String(mode, radix: 8))"])
    }
}

extension String {
    fileprivate func trimmingTrailingLineFeeds() -> String {
        var text = Substring(self)
        while let last = text.unicodeScalars.last, last == "\n" || last == "\r" { text.unicodeScalars.removeLast() }
        return String(text)
    }
}
