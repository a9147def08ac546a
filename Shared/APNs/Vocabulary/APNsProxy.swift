/// An HTTP proxy through which APNs is reached: each connection is a tunnel (CONNECT, RFC 9110 section 9.3.6). TLS with APNs runs inside
/// it, and the proxy resolves APNs' name.
package struct APNsProxy: Equatable, Sendable {
    package let host: String
    package let port: Int
    /// The value of `Proxy-Authorization` (RFC 9110 section 11.7.2); a secret.
    let authorization: String?

    package init(host: String, port: Int, authorization: String? = nil) {
        self.host = host
        self.port = port
        self.authorization = authorization
    }
}
