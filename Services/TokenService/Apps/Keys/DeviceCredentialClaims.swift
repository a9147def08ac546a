package import Configuration
package import Logging
package import Observability
import OpenSSL
package import PushModel
package import TokenServiceKit

/// The rights of one app on one device: to register and sign out its own installation, for one user. The app's backend, which knows the
/// user, fetches it and hands it to the app, so that no app holds an API key.
///
/// Nothing is stored of it. It ends with its time, with the installation's owner (``ExpectedOwner/device(_:expecting:)``), and with a
/// sign-out that found its user not signed in (``SignOutMoments``).
package struct DeviceCredentialClaims: Equatable, Sendable {
    package static let prefix = "psd_"
    /// Seconds.
    package static let lifetimes: ClosedRange<Int64> = 60...86_400
    /// The longest life in milliseconds. One that is good for longer was made by a process whose clock was more than an hour ahead.
    package static let longestLife: Int64 = (86_400 + 3_600) * 1000
    /// How long after its end it may still sign out its user, in milliseconds: ninety days.
    package static let signOutPatience: Int64 = 90 * 86_400_000

    package let app: AppSlug
    package let installation: PushID
    /// Nil: no user is signed in, and none can be by it.
    package let user: String?
    /// The installation's when the credential was made; 0 if it was not registered.
    package let ownerEpoch: Int64
    /// When it was made, by PostgreSQL's clock, which also says when a sign-out was, and later than those until then: UNIX microseconds.
    package let issuedAt: Int64
    /// UNIX milliseconds.
    package let expiresAt: Int64

    package init(app: AppSlug, installation: PushID, user: String?, ownerEpoch: Int64, issuedAt: Int64, expiresAt: Int64) {
        self.app = app
        self.installation = installation
        self.user = user
        self.ownerEpoch = ownerEpoch
        self.issuedAt = issuedAt
        self.expiresAt = expiresAt
    }
}

/// Signs device credentials with HMAC-SHA256 (RFC 2104). The first key signs, and every key verifies, so that keys can be replaced.
package struct DeviceCredentialKeys: Sendable {
    /// The least length of a key in bytes: that of the digest (RFC 2104 section 3).
    package static let minimumBytes = 32
    private static let macBytes = 32

    private let keys: [[UInt8]]

    /// - Parameter text: one key in each line, in hex.
    /// - Returns: nil if a line is no key, or there is none.
    package init?(_ text: String) {
        let lines = text.split(whereSeparator: \.isNewline).filter { !$0.isEmpty }
        let keys = lines.compactMap { DeviceToken(hex: String($0))?.bytes }
        guard !keys.isEmpty, keys.count == lines.count, keys.allSatisfy({ $0.count >= Self.minimumBytes }) else { return nil }
        self.keys = keys
    }

    package func text(_ credential: DeviceCredentialClaims) -> String {
        let body = credential.bytes
        return DeviceCredentialClaims.prefix + Base64URL.encode(body + Digest.hmacSHA256(key: keys[0], body))
    }

    /// - Returns: nil unless one of the keys has signed it. It may have expired.
    package func verify(_ text: String) -> DeviceCredentialClaims? {
        guard text.hasPrefix(DeviceCredentialClaims.prefix), text.utf8.count <= 1024,
            let bytes = Base64URL.decode(String(text.dropFirst(DeviceCredentialClaims.prefix.count))), bytes.count > Self.macBytes
        else { return nil }
        let (body, mac) = (Array(bytes.dropLast(Self.macBytes)), Array(bytes.suffix(Self.macBytes)))
        guard keys.contains(where: { constantTimeEquals(Digest.hmacSHA256(key: $0, body), mac) }) else { return nil }
        return DeviceCredentialClaims(bytes: body)
    }
}

extension DeviceCredentialClaims {
    private static let version: UInt8 = 1

    /// Version, epoch, beginning, end and installation in fixed places; then the app's length and text, and the user: a byte that says
    /// whether there is one, and the rest.
    fileprivate var bytes: [UInt8] {
        var bytes = [Self.version]
        for number in [ownerEpoch, issuedAt, expiresAt] {
            for place in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: number >> Int64(56 - 8 * place))) }
        }
        bytes += installation.bytes
        bytes.append(UInt8(app.text.utf8.count))
        bytes += Array(app.text.utf8)
        bytes.append(user == nil ? 0 : 1)
        bytes += Array((user ?? "").utf8)
        return bytes
    }

    fileprivate init?(bytes: [UInt8]) {
        guard bytes.count >= 43, bytes[0] == Self.version else { return nil }
        func number(at start: Int) -> Int64 { bytes[start..<start + 8].reduce(0) { $0 << 8 | Int64($1) } }
        let end = 42 + Int(bytes[41])
        guard bytes.count > end, let installation = PushID(bytes: bytes[25..<41]),
            let app = String(validating: bytes[42..<end], as: UTF8.self).flatMap({ AppSlug($0) }),
            let user = String(validating: bytes[(end + 1)...], as: UTF8.self), bytes[end] <= 1
        else { return nil }
        self.init(
            app: app, installation: installation, user: bytes[end] == 1 ? user : nil, ownerEpoch: number(at: 1), issuedAt: number(at: 9),
            expiresAt: number(at: 17))
    }
}

extension APIError {
    package static let credentialExpired = APIError(.credentialExpired, "fetch a new one through the app's backend")
    package static let credentialRevoked = APIError(
        .credentialRevoked, "another user signed in, or this one was signed out, since it was made; nothing was changed")
}

/// The installation has another user than the device credential's, or this one was signed out after it was made. The change had no effect.
package struct CredentialRevoked: ProblemError {
    package init() {}
    package var problem: APIError { .credentialRevoked }
}

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
