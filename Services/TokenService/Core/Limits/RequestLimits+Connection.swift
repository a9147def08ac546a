import HummingbirdCore
import NIOCore

extension RequestLimits {
    /// How each connection is served.
    var connection: HTTP1Channel.Configuration {
        HTTP1Channel.Configuration(
            additionalChannelHandlers: [ConnectionGuard(bodyTimeout: bodyTimeout)], idleTimeout: TimeAmount(idleTimeout),
            httpDecoderConfiguration: .init(
                maxHeaderFieldSize: Self.headerFieldBytes, maxHeaderListSize: Self.headerListBytes, maxHeaderFieldCount: Self.headerFields))
    }
}
