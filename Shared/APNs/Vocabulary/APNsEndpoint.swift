package import OpenSSL
package import PushModel

/// Where one environment of APNs is, and whom to believe that it is Apple.
package struct APNsEndpoint: Sendable {
    /// Resolved anew for each connection (Apple: Establishing a connection to APNs).
    package let host: String
    package let port: Int
    /// The name the certificate must carry; usually the host.
    package let tlsName: String
    package let trust: TLSTrust

    package init(host: String, port: Int = 443, tlsName: String? = nil, trust: TLSTrust = .system) {
        self.host = host
        self.port = port
        self.tlsName = tlsName ?? host
        self.trust = trust
    }

    /// Apple's own hosts (Sending notification requests to APNs).
    package static func apple(_ environment: APNsEnvironment) -> APNsEndpoint {
        switch environment {
        case .production: APNsEndpoint(host: "api.push.apple.com")
        case .sandbox: APNsEndpoint(host: "api.sandbox.push.apple.com")
        }
    }

    /// What stands in `:authority`.
    var authority: String { port == 443 ? tlsName : "\(tlsName):\(port)" }
}
