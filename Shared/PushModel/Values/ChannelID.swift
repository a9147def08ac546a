import FoundationEssentials

/// Apple's id of a broadcast channel: bytes of any count, which Apple writes in base64 (Apple: Sending channel management requests to APNs).
package struct ChannelID: Hashable, Sendable {
    package let text: String
    /// The id as the token of a delivery (``PushJob/isBroadcast``).
    package let asToken: DeviceToken

    /// - Returns: nil unless `text` is base64, as an encoder writes it, of 1 to ``DeviceToken/maximumBytes`` bytes.
    package init?(_ text: String) {
        guard let data = Data(base64Encoded: text), data.base64EncodedString() == text, let token = DeviceToken(bytes: Array(data)) else {
            return nil
        }
        self.text = text
        asToken = token
    }

    package init(_ token: DeviceToken) {
        text = Data(token.bytes).base64EncodedString()
        asToken = token
    }
}
