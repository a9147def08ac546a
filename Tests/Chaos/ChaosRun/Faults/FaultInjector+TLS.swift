import ChaosLedger
import Glibc
import TestSupport

/// Broken TLS to RabbitMQ and PostgreSQL. A client that cannot use TLS with the right server must send nothing.
extension FaultInjector {
    /// Every connection ends after some bytes: in the handshake, or soon after it.
    func cutHandshakes(seconds: Double, _ random: inout SeededGenerator) async throws {
        var random = random
        try await onServerLinks("cut in the handshake", seconds: seconds) {
            let way = LinkConditions.Way.ending(after: Int.random(in: 0..<2500, using: &random), .reset)
            return random.chance(0.5) ? LinkConditions(toServer: way) : LinkConditions(toClient: way)
        }
    }

    /// One byte of every connection arrives changed, in the handshake or after it.
    func garbleRecords(seconds: Double, _ random: inout SeededGenerator) async throws {
        var random = random
        try await onServerLinks("a byte garbled", seconds: seconds) {
            // Also the first byte, in which PostgreSQL says whether it uses TLS.
            let way = LinkConditions.Way.garbled(after: random.chance(0.3) ? 0 : Int.random(in: 0..<4000, using: &random))
            return random.chance(0.3) ? LinkConditions(toServer: way) : LinkConditions(toClient: way)
        }
    }

    /// Both servers show certificates that are not theirs, one after another.
    func showWrongCertificates(seconds: Double) async throws {
        guard let certificates = platform.certificates else { return say("    skipped: the servers do not speak TLS") }
        var records = beginTLS("wrong certificates")
        for kind in ServerCertificates.Kind.allCases where kind != .right {
            try await show(kind, of: certificates)
            for proxy in serverLinks { proxy.cut() }
            try await Task.sleep(for: .seconds(seconds / 3))
        }
        try await show(.right, of: certificates)
        try await endTLS(&records)
    }

    private func show(_ kind: ServerCertificates.Kind, of certificates: ServerCertificates) async throws {
        try certificates.show(kind)
        // PostgreSQL reads its certificate again (manual 19.9).
        platform.database.program.signal(SIGHUP)
        // Without this RabbitMQ's listener keeps the old certificate for two minutes.
        try await platform.broker.control(["eval", "ssl:clear_pem_cache()."])
    }

    private var serverLinks: [FaultProxy] {
        platform.links.names { $0.hasSuffix(">postgres") || $0.hasSuffix(">rabbitmq") }.compactMap { platform.links[$0] }
    }

    private func onServerLinks(_ what: String, seconds: Double, _ draw: () -> LinkConditions) async throws {
        guard platform.certificates != nil else { return say("    skipped: the servers do not speak TLS") }
        var records = beginTLS(what)
        let end = ContinuousClock.now + .seconds(seconds)
        while ContinuousClock.now < end {
            for proxy in serverLinks {
                proxy.set(draw(), for: .new)
                proxy.cut()
            }
            // Long enough for some handshakes to reach the changed byte.
            try await Task.sleep(for: .milliseconds(600))
        }
        for proxy in serverLinks {
            proxy.set(.forwarding)
            // A client that lacks a byte of its handshake would wait for it.
            proxy.cut()
        }
        try await endTLS(&records)
    }

    private func beginTLS(_ what: String) -> [FaultRecord] { ["rabbitmq", "postgres"].map { begin(.tls, $0, detail: what) } }

    private func endTLS(_ records: inout [FaultRecord]) async throws {
        for index in records.indices { end(&records[index]) }
        for index in records.indices { try await recover(&records[index]) { await everythingIsReady() } }
    }
}
