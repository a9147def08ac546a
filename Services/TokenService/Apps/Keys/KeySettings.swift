package import Configuration
package import Logging
package import Observability
package import PushModel

/// The keys that an operator gives to the service.
package struct KeySettings: Sendable {
    /// An administrator's key that exists from the start.
    package var bootstrapKey: APIKeyText?
    /// Nil: there are no device credentials.
    package var deviceCredentialKeys: DeviceCredentialKeys?

    package init(_ config: ConfigReader, logger: Logger) throws {
        if let text = try config.read(Self.bootstrapKeyFile, logger: logger) {
            guard let key = APIKeyText(text) else {
                throw Self.bootstrapKeyFile.error(expected: "a file that holds one API key: \(APIKeyText.rule)")
            }
            bootstrapKey = key
        }
        if let text = try config.read(Self.deviceCredentialKeysFile, logger: logger) {
            guard let keys = DeviceCredentialKeys(text) else {
                let digits = 2 * DeviceCredentialKeys.minimumBytes
                throw Self.deviceCredentialKeysFile.error(
                    expected: "a file with one key in each line, \(digits) or more hex digits (openssl rand -hex 32)")
            }
            deviceCredentialKeys = keys
        }
    }

    package static let all: [any DocumentedSetting] = [bootstrapKeyFile, deviceCredentialKeysFile]

    private static let bootstrapKeyFile = FileSetting(
        secret: "bootstrap.key.file",
        "file with an administrator's key made by `pushctl keys generate`; only its hash is stored")
    private static let deviceCredentialKeysFile = FileSetting(
        secret: "device.credential.keys.file",
        "file with the keys that sign device credentials, one in each line (`openssl rand -hex 32`): the first signs, all verify; read at "
            + "start; the same for all token services. Without it none are made")
}
