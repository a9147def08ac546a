import Testing

@testable import OpenSSL

@Suite("TLS over memory", .timeLimit(.minutes(5)))
final class TLSSessionTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
        try scratch.makeAuthority("authority")
        try scratch.makeCertificate("server", by: "authority", alternativeNames: "DNS:push.example,DNS:*.wild.example,IP:127.0.0.1,IP:::1")
    }

    private func client(alpn: [String] = ["h2"], trust: TLSTrust? = nil, certificate: TLSIdentity? = nil) throws -> TLSContext {
        try TLSContext.client(trust: trust ?? .file(scratch.path("authority.pem")), certificate: certificate, alpn: alpn)
    }

    private func server(alpn: [String] = ["h2"], certificate: String = "server", clientTrust: String? = nil) throws -> TLSContext {
        try TLSContext.server(
            certificateFile: scratch.path("\(certificate).pem"), keyFile: scratch.path("\(certificate).key"), alpn: alpn,
            clientTrust: clientTrust)
    }

    private func connected(alpn: [String] = ["h2"]) throws -> Handshake {
        let pair = try Handshake(client(alpn: alpn), server(alpn: ["h2", "http/1.1"]), serverName: "push.example")
        try #require(pair.run(), "\(String(describing: pair.clientError)) \(String(describing: pair.serverError))")
        return pair
    }

    @Test("Both sides agree, and bytes go both ways") func bothWays() throws {
        let pair = try connected()
        #expect(pair.client.negotiatedALPN == "h2" && pair.server.negotiatedALPN == "h2")
        #expect(pair.client.protocolVersion == "TLSv1.3")
        #expect(pair.client.peerCertificateCommonName == "server" && pair.server.peerCertificateCommonName == nil)
        try pair.client.write(Array("question".utf8))
        try pair.server.write(Array("answer".utf8))
        pair.carry(pair.client, pair.server)
        pair.carry(pair.server, pair.client)
        #expect(try Handshake.plaintext(of: pair.server) == Array("question".utf8))
        #expect(try Handshake.plaintext(of: pair.client) == Array("answer".utf8))
    }

    @Test("Sent bytes leave memory even if some output always waits") func releasesMemory() throws {
        let pair = try connected()
        var (written, read): ([UInt8], [UInt8]) = ([], [])
        for round in 0..<100 {
            let piece = (0..<60_000).map { UInt8(truncatingIfNeeded: $0 / 7 + round) }
            try pair.server.write(piece)
            written += piece
            // The peer reads steadily, but never everything.
            var taken: [UInt8] = []
            pair.server.withOutput { bytes in
                taken = bytes.extracting(first: bytes.count - 5_000).withUnsafeBufferPointer { Array($0) }
                return taken.count
            }
            pair.client.receive(taken.span)
            _ = try pair.client.read(into: &read)
            #expect(pair.server.pendingOutput == 5_000)
            #expect(pair.server.heldOutput < 200_000)
        }
        pair.client.receive(pair.server.takeOutput().span)
        _ = try pair.client.read(into: &read)
        #expect(read == written)
        #expect(pair.server.heldOutput == 0)
    }

    @Test(
        "The client accepts a name in the certificate", arguments: ["push.example", "PUSH.example", "a.wild.example", "127.0.0.1", "::1"])
    func rightName(name: String) throws {
        let pair = try Handshake(client(), server(), serverName: name)
        #expect(pair.run(), "\(String(describing: pair.clientError))")
    }

    @Test(
        "The client refuses another name in the handshake",
        arguments: ["other.example", "wild.example", "a.b.wild.example", "127.0.0.2", "::2", "server", "push.example.evil"])
    func wrongName(name: String) throws {
        let pair = try Handshake(client(), server(), serverName: name)
        #expect(!pair.run())
        guard case .certificate(let result)? = pair.clientError?.code else {
            Issue.record("\(String(describing: pair.clientError))")
            return
        }
        // X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH (x509_vfy.h)
        #expect([62, 64].contains(result))
        #expect(pair.serverError?.code == .alert, "the server gets an alert")
    }

    @Test("An invalid server name is an error and does not skip the check") func invalidName() throws {
        let context = try client()
        for name in ["", "push.example\0.evil.example"] {
            #expect(throws: TLSError.self) { try TLSSession(client: context, serverName: name) }
        }
    }

    @Test("The client refuses an unknown authority") func unknownAuthority() throws {
        try scratch.makeAuthority("stranger")
        let file = try Handshake(client(trust: .file(scratch.path("stranger.pem"))), server(), serverName: "push.example")
        #expect(!file.run())
        let system = try Handshake(client(trust: .system), server(), serverName: "push.example")
        #expect(!system.run())
        for error in [file.clientError, system.clientError] {
            guard case .certificate? = error?.code else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
    }

    @Test("The client refuses an expired certificate") func expiredCertificate() throws {
        try scratch.makeCertificate("expired", by: "authority", alternativeNames: "DNS:push.example", days: -1)
        let pair = try Handshake(client(), server(certificate: "expired"), serverName: "push.example")
        #expect(!pair.run())
        // X509_V_ERR_CERT_HAS_EXPIRED
        #expect(pair.clientError?.code == .certificate(verifyResult: 10))
        #expect(pair.clientError?.description == "SSL_do_handshake: certificate has expired")
    }

    @Test("The server refuses a client without a common protocol") func noCommonProtocol() throws {
        let pair = try Handshake(client(alpn: ["h3", "spdy/1"]), server(alpn: ["h2"]), serverName: "push.example")
        #expect(!pair.run())
        #expect(pair.clientError?.code == .alert)
        #expect(pair.serverError?.code == .protocol)
    }

    @Test("A server without ALPN negotiates no protocol") func withoutALPN() throws {
        let pair = try Handshake(client(alpn: ["h2"]), server(alpn: []), serverName: "push.example")
        #expect(pair.run())
        #expect(pair.client.negotiatedALPN == nil)
    }

    @Test("The server's preference decides the protocol") func serverPreference() throws {
        let pair = try Handshake(client(alpn: ["http/1.1", "h2"]), server(alpn: ["h2", "http/1.1"]), serverName: "push.example")
        #expect(pair.run())
        #expect(pair.client.negotiatedALPN == "h2")
    }

    @Test("A server may require a client certificate") func requiresCertificate() throws {
        try scratch.makeAuthority("clients")
        try scratch.makeCertificate("backend", by: "clients", alternativeNames: "DNS:backend")
        let identity = TLSIdentity(certificateFile: scratch.path("backend.pem"), keyFile: scratch.path("backend.key"))
        let trusting = try server(clientTrust: scratch.path("clients.pem"))
        let known = try Handshake(client(certificate: identity), trusting, serverName: "push.example")
        #expect(known.run())
        #expect(known.server.peerCertificateCommonName == "backend")

        let anonymous = try Handshake(client(), trusting, serverName: "push.example")
        #expect(!anonymous.run())
        #expect(anonymous.serverError?.code == .protocol)
        // In TLS 1.3 the client has finished by then. It learns of the refusal when it reads.
        var nothing: [UInt8] = []
        let error = #expect(throws: TLSError.self) { try anonymous.client.read(into: &nothing) }
        #expect(error?.code == .alert)

        let stranger = try Handshake(
            client(certificate: identity), server(clientTrust: scratch.path("authority.pem")), serverName: "push.example")
        #expect(!stranger.run())
        guard case .certificate? = stranger.serverError?.code else {
            Issue.record("\(String(describing: stranger.serverError))")
            return
        }
    }

    @Test("A caller may take the output in pieces without loss") func outputPieces() throws {
        let pair = try connected()
        let message = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        try pair.client.write(message)
        let expected = pair.client.pendingOutput
        #expect(expected > 1_000_000 && expected < 1_000_000 + 62 * 40, "full records: 62 of them")
        var sizes = [1, 16_000, 70_000].makeIterator()
        var carried: [UInt8] = []
        while pair.client.pendingOutput > 0 {
            let size = sizes.next() ?? 123_456
            pair.client.withOutput { bytes in
                let piece = bytes.extracting(0..<min(size, bytes.count))
                piece.withUnsafeBufferPointer { carried += $0 }
                return piece.count
            }
        }
        #expect(carried.count == expected)
        // A write goes behind the output that still waits.
        try pair.client.write([1, 2, 3])
        pair.client.withOutput { _ in 0 }
        carried += pair.client.takeOutput()
        for piece in stride(from: 0, to: carried.count, by: 33_333) {
            pair.server.receive(Array(carried[piece..<min(piece + 33_333, carried.count)]))
        }
        #expect(try Handshake.plaintext(of: pair.server) == message + [1, 2, 3])
    }

    @Test("Bytes may come one by one") func singleBytes() throws {
        let pair = try connected()
        try pair.client.write(Array("slow".utf8))
        var plaintext: [UInt8] = []
        for byte in pair.client.takeOutput() {
            #expect(try pair.server.read(into: &plaintext) == .incomplete)
            pair.server.receive([byte])
        }
        #expect(try pair.server.read(into: &plaintext) == .bytes(4))
        #expect(plaintext == Array("slow".utf8))
    }

    @Test("Reading stops near its limit and goes on") func readLimit() throws {
        let pair = try connected()
        try pair.client.write([UInt8](repeating: 5, count: 100_000))
        pair.carry(pair.client, pair.server)
        var plaintext: [UInt8] = []
        #expect(try pair.server.read(into: &plaintext, limit: 20_000) == .bytes(32_768))
        while case .bytes = try pair.server.read(into: &plaintext) {}
        #expect(plaintext.count == 100_000)
    }

    @Test("A session distinguishes a peer that closes from one that is cut off") func goodbye() throws {
        let pair = try connected()
        try pair.server.write(Array("last words".utf8))
        pair.server.shutdown()
        pair.carry(pair.server, pair.client)
        var plaintext: [UInt8] = []
        #expect(try pair.client.read(into: &plaintext) == .bytes(10))
        #expect(try pair.client.read(into: &plaintext) == .closed)

        let cut = try connected()
        #expect(try cut.client.read(into: &plaintext) == .incomplete)
    }

    @Test("Garbage is an error, and the peer gets an alert") func garbage() throws {
        let early = try TLSSession(server: server())
        early.receive(Array("GET / HTTP/1.1\r\n\r\n".utf8))
        let greeting = #expect(throws: TLSError.self) { try early.handshake() }
        #expect(greeting?.code == .protocol)

        let pair = try connected()
        try pair.client.write(Array("secret".utf8))
        var forged = pair.client.takeOutput()
        forged[forged.count - 1] ^= 1
        pair.server.receive(forged)
        var plaintext: [UInt8] = []
        let tampered = #expect(throws: TLSError.self) { try pair.server.read(into: &plaintext) }
        #expect(tampered?.code == .protocol && plaintext.isEmpty)
        #expect(pair.server.pendingOutput > 0)
    }

    @Test("The server refuses an older TLS") func olderTLS() throws {
        // A ClientHello that knows nothing above TLS 1.1 (RFC 4346 section 7.4.1.2), with ECDHE and RSA ciphers of that time.
        let hello: [UInt8] = [3, 2] + [UInt8](repeating: 7, count: 32) + [0, 0, 4, 0xc0, 0x09, 0xc0, 0x13, 1, 0]
        let message = [1, 0, 0, UInt8(hello.count)] + hello
        let session = try TLSSession(server: server())
        session.receive([22, 3, 1, 0, UInt8(message.count)] + message)
        let error = #expect(throws: TLSError.self) { try session.handshake() }
        #expect(error?.code == .protocol)
        // The alert protocol_version, fatal (RFC 8446 section 6.2).
        #expect(session.takeOutput().suffix(2) == [2, 70])
    }

    @Test("Writing before the handshake is an error") func earlyWrite() throws {
        let session = try TLSSession(client: client(), serverName: "push.example")
        #expect(throws: TLSError.self) { try session.write([1]) }
    }

    @Test("An error names a missing file") func missingFile() throws {
        let missing = #expect(throws: TLSError.self) { try self.client(trust: .file("/nowhere/ca.pem")) }
        #expect(missing?.code == .file && missing?.description.contains("/nowhere/ca.pem") == true)
        let wrong = #expect(throws: TLSError.self) {
            try TLSContext.server(
                certificateFile: self.scratch.path("server.pem"), keyFile: self.scratch.path("authority.key"), alpn: [])
        }
        #expect(wrong?.code == .file)
        try scratch.openssl("pkcs8 -topk8 -in server.key -out locked.key -passout pass:xyz")
        let locked = #expect(throws: TLSError.self) {
            try TLSContext.server(certificateFile: self.scratch.path("server.pem"), keyFile: self.scratch.path("locked.key"), alpn: [])
        }
        #expect(locked?.code == .file, "no question on the terminal")
    }
}
