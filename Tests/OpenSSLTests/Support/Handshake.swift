import OpenSSL

/// Two TLS sessions joined in memory.
final class Handshake {
    let client: TLSSession
    let server: TLSSession
    private(set) var clientError: TLSError?
    private(set) var serverError: TLSError?

    init(_ clientContext: TLSContext, _ serverContext: TLSContext, serverName: String) throws {
        client = try TLSSession(client: clientContext, serverName: serverName)
        server = try TLSSession(server: serverContext)
    }

    /// Runs until both sides are complete, or until one has failed and the other has its alert.
    /// - Returns: true if both are complete.
    func run() -> Bool {
        var complete = (client: false, server: false)
        for _ in 0..<10 {
            if clientError == nil { step(client, &complete.client, &clientError) }
            carry(client, server)
            if serverError == nil { step(server, &complete.server, &serverError) }
            carry(server, client)
            if complete.client, complete.server { return true }
        }
        return false
    }

    private func step(_ session: TLSSession, _ complete: inout Bool, _ failure: inout TLSError?) {
        do throws(TLSError) {
            if try session.handshake() == .complete { complete = true }
        } catch {
            failure = error
        }
    }

    func carry(_ from: TLSSession, _ to: TLSSession) {
        let output = from.takeOutput()
        to.receive(output.span)
    }

    /// Everything that arrives on the other side.
    static func plaintext(of session: TLSSession) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while case .bytes = try session.read(into: &bytes) {}
        return bytes
    }
}

extension TLSSession {
    func write(_ bytes: [UInt8]) throws(TLSError) { try write(bytes.span) }
    func receive(_ bytes: [UInt8]) { receive(bytes.span) }
}
