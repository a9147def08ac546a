import HTTP2

/// Clients that show a certificate instead of provider tokens (Apple: Establishing a certificate-based connection to APNs).
extension ServerConnection {
    /// - Returns: The streams to announce: a client with a good certificate need not prove anything more.
    func present(_ certificate: ClientCertificate) -> UInt32 {
        check.present(certificate)
        _ = gate.answered(status: nil, isAuthenticated: check.authority.isAuthenticated)
        return gate.limit
    }

    /// As Apple does it: not an answer, but the end of the connection before it began (docs/apns.md, Connections).
    func refuseEnvironment() throws(HTTP2Error) {
        try http2?.goAway(lastStream: 0, code: .noError, debug: Answer(.badCertificateEnvironment).body ?? [])
    }
}
