package import OpenSSL
package import PushModel

/// The address of one environment of APNs, and the authorities that prove that it is Apple's.
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

    /// Apple's own hosts (Sending notification requests to APNs; Sending channel management requests to APNs). Broadcasts get through at the
    /// hosts of device pushes (docs/apns.md, Broadcasts).
    package static func apple(_ environment: APNsEnvironment, _ service: APNsService = .device) -> APNsEndpoint {
        switch (service, environment) {
        case (.device, .production), (.broadcast, .production): APNsEndpoint(host: "api.push.apple.com")
        case (.device, .sandbox), (.broadcast, .sandbox): APNsEndpoint(host: "api.sandbox.push.apple.com")
        case (.channels, .production): APNsEndpoint(host: "api-manage-broadcast.push.apple.com", port: 2196)
        case (.channels, .sandbox): APNsEndpoint(host: "api-manage-broadcast.sandbox.push.apple.com", port: 2195)
        }
    }

    /// The value of `:authority`.
    var authority: String { port == 443 ? tlsName : "\(tlsName):\(port)" }
}
