import APNsSimulator
import Foundation
import HTTP2
import OpenSSL
import TestIdentity
import Testing

/// Certificates like Apple's, made by an authority of the tests.
struct ProviderCertificates {
    /// An authority that several tests share.
    static let shared = Result { try ProviderCertificates() }

    let folder: String
    var authority: String { folder + "/ca.pem" }

    init() throws {
        folder = try TestIdentity.shared.get().directory + "/" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try TestIdentity.run(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=CA",
            "-keyout", folder + "/ca.key", "-out", authority)
    }

    /// - Parameters:
    ///   - marks: Lines of an OpenSSL extension section.
    ///   - days: Negative is expired.
    func make(_ name: String, userID: String = TestPush.topic, marks: String = "", days: Int = 2, isSigned: Bool = true) throws
        -> TLSIdentity
    {
        let base = folder + "/" + name
        try Data("basicConstraints=CA:FALSE\n\(marks)\n".utf8).write(to: URL(filePath: base + ".ext"))
        try TestIdentity.run(
            "openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
            "/UID=\(userID)/CN=Apple Push Services: \(userID)", "-keyout", base + ".key", "-out", base + ".csr")
        if isSigned {
            try TestIdentity.run(
                "openssl", "x509", "-req", "-in", base + ".csr", "-CA", authority, "-CAkey", folder + "/ca.key", "-CAcreateserial", "-days",
                String(days), "-extfile", base + ".ext", "-out", base + ".pem")
        } else {
            try TestIdentity.run(
                "openssl", "x509", "-req", "-in", base + ".csr", "-signkey", base + ".key", "-days", String(days), "-out", base + ".pem")
        }
        return TLSIdentity(certificateFile: base + ".pem", keyFile: base + ".key")
    }

    static let sandbox = "1.2.840.113635.100.6.3.1=ASN1:NULL"
    static let production = "1.2.840.113635.100.6.3.2=ASN1:NULL"
    /// SEQUENCE { "com.example.shop", { "app" }, "com.example.shop.voip", { "voip" }, "com.example.shop.complication", { "complication" } }
    static let topics = """
        1.2.840.113635.100.6.3.6=ASN1:SEQUENCE:topics
        [topics]
        a=UTF8String:com.example.shop
        b=SEQUENCE:app
        c=UTF8String:com.example.shop.voip
        d=SEQUENCE:voip
        e=UTF8String:com.example.shop.complication
        f=SEQUENCE:complication
        [app]
        a=UTF8String:app
        [voip]
        a=UTF8String:voip
        [complication]
        a=UTF8String:complication
        """
}

@Suite("A client certificate replaces a provider token", .timeLimit(.minutes(5)))
struct CertificateTests {
    private func with(
        _ body: (TestSimulator, ProviderCertificates) async throws -> Void
    ) async throws {
        let certificates = try ProviderCertificates()
        try await withSimulator {
            $0.clientCAFile = certificates.authority
        } _: { test in
            try await body(test, certificates)
        }
    }

    private func client(
        _ test: TestSimulator, _ certificate: TLSIdentity, _ environment: SimulatorEnvironment = .production
    ) throws -> PushClient {
        try PushClient(port: test.simulator.port(environment), certificate: certificate)
    }

    @Test("A certificate for one app needs neither token nor topic, and all streams are open at once")
    func single() async throws {
        try await with { test, certificates in
            let client = try client(test, certificates.make("one"))
            #expect(try client.send(TestPush()).status == 200)
            #expect(client.limits == [1000])
            #expect(try client.send(TestPush().with("apns-topic", nil)).status == 200)
            #expect(test.simulator.journal().map(\.topic) == [TestPush.topic, TestPush.topic])
            let other = try client.send(TestPush().with("apns-topic", "com.example.other"))
            #expect(other.body == #"{"reason":"TopicDisallowed"}"#)
            let voip = TestPush().with("apns-topic", "com.example.shop.voip").with("apns-push-type", "voip")
            #expect(try client.send(voip).status == 400)
        }
    }

    @Test("With a certificate for several topics a request must name its topic; complications and VoIP are among them")
    func several() async throws {
        try await with { test, certificates in
            let client = try client(
                test, certificates.make("many", marks: ProviderCertificates.production + "\n" + ProviderCertificates.topics))
            let bodies = try [nil, "com.example.shop", "com.example.shop.voip", "com.example.shop.location-query"].map { topic in
                try client.send(TestPush().with("apns-push-type", nil).with("apns-topic", topic)).body
            }
            #expect(bodies == [#"{"reason":"MissingTopic"}"#, "", "", #"{"reason":"TopicDisallowed"}"#])
        }
    }

    @Test("With a certificate the simulator ignores the authorization header, good or bad")
    func mixed() async throws {
        try await with { test, certificates in
            let client = try client(test, certificates.make("mixed"))
            #expect(try client.send(TestPush().with("authorization", "bearer nonsense")).status == 200)
            #expect(try client.send(test.push()).status == 200)
            #expect(try client.send(test.push().with("apns-topic", "com.example.other")).status == 400)
        }
    }

    @Test("Without a certificate provider tokens decide, as if the simulator had not requested one")
    func none() async throws {
        try await with { test, _ in
            let client = try test.client()
            #expect(try client.send(TestPush()).body == #"{"reason":"MissingProviderToken"}"#)
            #expect(try client.send(test.push()).status == 200)
            #expect(client.limits.first == 1)
        }
    }

    @Test("A certificate that is expired or of another authority is BadCertificate", arguments: [false, true])
    func bad(_ isExpired: Bool) async throws {
        try await with { test, certificates in
            let identity = try certificates.make("bad", days: isExpired ? -1 : 2, isSigned: isExpired)
            let client = try client(test, identity)
            let answers = try [TestPush(), test.push()].map { try client.send($0) }
            #expect(answers.map(\.body) == Array(repeating: #"{"reason":"BadCertificate"}"#, count: 2))
            #expect(answers.map(\.status) == [403, 403])
            #expect(client.limits == [1])
        }
    }

    @Test("A certificate for the other environment meets a GOAWAY that says so")
    func environment() async throws {
        try await with { test, certificates in
            let sandbox = try certificates.make("sandbox", marks: ProviderCertificates.sandbox)
            let wrong = try client(test, sandbox)
            try wrong.run { !$0.goAways.isEmpty }
            #expect(wrong.goAways[0].debug == #"{"reason":"BadCertificateEnvironment"}"#)
            #expect(wrong.goAways[0].lastStream == 0)
            #expect(wrong.goAways[0].code == .noError)
            let hasty = try PushClient(port: test.simulator.port(.production), certificate: sandbox, firstFlight: TestPush())
            try hasty.run { $0.closed[1] != nil }
            #expect(hasty.closed[1] == .refusedStream)
            #expect(test.simulator.counters.requests == 0)
            let right = try client(test, sandbox, .sandbox)
            #expect(try right.send(TestPush()).status == 200)
            let both = try certificates.make("both", marks: ProviderCertificates.sandbox + "\n" + ProviderCertificates.production)
            for environment in SimulatorEnvironment.allCases {
                #expect(try client(test, both, environment).send(TestPush()).status == 200)
            }
        }
    }
}
