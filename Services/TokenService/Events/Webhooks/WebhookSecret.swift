import FoundationEssentials
import OpenSSL

/// The key that signs a webhook's messages, as Standard Webhooks wants it: `whsec_` and base 64 of 24 to 64 bytes.
package struct WebhookSecret: Equatable, Sendable {
    package static let prefix = "whsec_"

    package let bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }

    package static func generate() -> WebhookSecret { WebhookSecret(bytes: SecureRandom.bytes(32)) }

    package var text: String { Self.prefix + Data(bytes).base64EncodedString() }

    /// The value of `webhook-signature`: HMAC-SHA256 of `id.timestamp.body`, once for each secret that is valid now.
    /// - Parameter timestamp: UNIX seconds.
    package static func signature(of body: [UInt8], id: String, timestamp: Int64, secrets: [WebhookSecret]) -> String {
        let content = Array("\(id).\(timestamp).".utf8) + body
        return secrets.map { secret in
            "v1," + Data(Digest.hmacSHA256(key: secret.bytes, content)).base64EncodedString()
        }.joined(separator: " ")
    }
}

/// A log line or an error must never show it, also not as a part of another value.
extension WebhookSecret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "WebhookSecret" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
