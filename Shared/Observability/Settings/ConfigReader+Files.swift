package import Configuration
package import Logging
import SystemIO

extension ConfigReader {
    /// A file that holds one secret: its text without the line feed at its end. Nil if the setting is not set.
    ///
    /// Warns when others than the owner can read the file. Never shows its content.
    /// - Parameter maximumBytes: A larger file is surely the wrong one.
    package func optionalSecretFile(_ key: String, maximumBytes: Int = 65_536, logger: Logger) throws(ConfigurationError) -> String? {
        guard let path = try optionalFile(key, logger: logger, isSecret: true) else { return nil }
        let expected = "the path of a readable text file of 1 to \(maximumBytes) bytes"
        let content: WholeFile
        do throws(WholeFile.Fault) {
            content = try WholeFile(path: path, maximumBytes: maximumBytes)
        } catch {
            throw ConfigurationError(key, expected: "\(expected) (\(error))", given: path)
        }
        guard let text = String(validating: content.bytes, as: UTF8.self) else {
            throw ConfigurationError(key, expected: expected, given: path)
        }
        let secret = text.trimmingTrailingLineFeeds()
        guard !secret.isEmpty else { throw ConfigurationError(key, expected: expected, given: path) }
        return secret
    }

    package func secretFile(_ key: String, logger: Logger) throws(ConfigurationError) -> String {
        guard let secret = try optionalSecretFile(key, logger: logger) else {
            throw ConfigurationError(key, expected: "the path of a file that holds the secret, and is not set")
        }
        return secret
    }

    /// The path of a file that exists and can be read; nil where the setting is not set.
    /// - Parameter isSecret: Warns when others than the owner can read the file.
    package func optionalFile(_ key: String, logger: Logger, isSecret: Bool = false) throws(ConfigurationError) -> String? {
        guard let path = optionalText(key) else { return nil }
        do throws(WholeFile.Fault) {
            let mode = try WholeFile.check(path)
            if isSecret, let mode { logger.warn(ofSecretFile: path, mode: mode, setting: ConfigurationError.variable(key)) }
        } catch {
            throw ConfigurationError(key, expected: "the path of a readable file (\(error))", given: path)
        }
        return path
    }

    package func file(_ key: String, logger: Logger, isSecret: Bool = false) throws(ConfigurationError) -> String {
        guard let path = try optionalFile(key, logger: logger, isSecret: isSecret) else {
            throw ConfigurationError(key, expected: "the path of a readable file, and is not set")
        }
        return path
    }
}

extension Logger {
    /// Others than the owner may use a secret file. A warning only: orchestrators mount secrets with modes of their own.
    /// - Parameters:
    ///   - mode: its permission bits.
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
