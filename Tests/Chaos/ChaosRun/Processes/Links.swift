import TestSupport

/// A proxy on every link of the platform, by name: `dispatcher-2>rabbitmq`, `token-service-1>postgres`, `client>token-service-1`, …
struct Links {
    private(set) var proxies: [String: FaultProxy] = [:]
    /// The links on which clients must speak TLS.
    private(set) var tlsNames: [String] = []

    /// - Parameter opening: Not nil where its client must speak TLS.
    /// - Returns: the port that the client of this link is to use.
    mutating func add(_ name: String, to port: Int, opening: FaultProxy.Opening? = nil) throws -> Int {
        if opening != nil { tlsNames.append(name) }
        let proxy = try FaultProxy(port: port, opening: opening)
        proxies[name] = proxy
        return proxy.port
    }

    /// In order, so that a seed always draws the same one.
    func names(where condition: (String) -> Bool = { _ in true }) -> [String] { proxies.keys.filter(condition).sorted() }

    subscript(name: String) -> FaultProxy? { proxies[name] }

    func stop() { for proxy in proxies.values { proxy.stop() } }
}
