package import Configuration
import FoundationEssentials
import Glibc
package import Logging

extension ConfigReader {
    /// A file that holds one secret: its text without the line feed at its end. Nil if the setting is not set.
    ///
    /// Warns when others than the owner can read the file. Never shows its content.
    /// - Parameter maximumBytes: A larger file is surely the wrong one.
    package func optionalSecretFile(_ key: String, maximumBytes: Int = 65_536, logger: Logger) throws(ConfigurationError) -> String? {
        guard let path = try optionalFile(key, logger: logger, isSecret: true) else { return nil }
        let expected = "the path of a readable text file of 1 to \(maximumBytes) bytes"
        let content: Data
        do {
            content = try Data(contentsOf: URL(filePath: path))
        } catch {
            throw ConfigurationError(key, expected: expected, given: path)
        }
        guard content.count <= maximumBytes, let text = String(validating: content, as: UTF8.self) else {
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
        guard FileManager.default.isReadableFile(atPath: path) else {
            throw ConfigurationError(key, expected: "the path of a readable file", given: path)
        }
        if isSecret { Self.warnIfOthersMayRead(path, variable: ConfigurationError.variable(key), logger: logger) }
        return path
    }

    package func file(_ key: String, logger: Logger, isSecret: Bool = false) throws(ConfigurationError) -> String {
        guard let path = try optionalFile(key, logger: logger, isSecret: isSecret) else {
            throw ConfigurationError(key, expected: "the path of a readable file, and is not set")
        }
        return path
    }

    /// Group and others, any of read, write, execute. The process's own group may read: orchestrators give secrets to it (`fsGroup`). A
    /// warning only: they mount secrets with modes of their own.
    private static func warnIfOthersMayRead(_ path: String, variable: String, logger: Logger) {
        let target = URL(filePath: path).resolvingSymlinksInPath().path
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: target),
            let permissions = attributes[.posixPermissions] as? Int
        else { return }
        let isOwnGroup = attributes[.groupOwnerAccountID] as? UInt32 == getegid() && getegid() != 0
        guard permissions & (isOwnGroup ? 0o037 : 0o077) != 0 else { return }
        logger.warning(
            "A secret file can be read by others than its owner",
            metadata: ["setting": "\(variable)", "file.path": "\(path)", "file.mode": "\(String(permissions, radix: 8))"])
    }
}

extension String {
    fileprivate func trimmingTrailingLineFeeds() -> String {
        var text = Substring(self)
        while let last = text.unicodeScalars.last, last == "\n" || last == "\r" { text.unicodeScalars.removeLast() }
        return String(text)
    }
}
