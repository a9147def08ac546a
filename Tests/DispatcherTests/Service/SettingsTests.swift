import Configuration
import Foundation
import Logging
import Observability
import OpenSSL
import PushModel
import Synchronization
import TestIdentity
import Testing

@testable import APNs
@testable import Dispatcher

@Suite("The settings of the dispatcher")
struct SettingsTests {
    private func settings(_ changes: [String: String]) throws -> DispatcherSettings {
        var variables = [
            "RABBITMQ_URL": "amqp://user:secret@broker/vhost", "APNS_CREDENTIALS_FILE": try TestIdentity.configured.get().credentialsFile,
        ]
        variables.merge(changes) { $1 }
        return try DispatcherSettings(.environment(variables), logger: .silent)
    }

    @Test(
        "The definitions are for the virtual host and the prefix of the settings, unless the operator names others",
        arguments: [
            (nil, nil, nil, nil, "/", "push.jobs"), ("amqp://user@broker/prod", nil, nil, nil, "prod", "push.jobs"),
            ("amqp://user@broker", "shop", nil, nil, "/", "shop.jobs"),
            ("amqp://user@broker/prod", "shop", "test", "cafe", "test", "cafe.jobs"),
        ] as [(String?, String?, String?, String?, String, String)])
    func definitions(url: String?, prefix: String?, host: String?, name: String?, isFor: String, exchange: String) throws {
        let variables = ["RABBITMQ_URL": url, "BROKER_PREFIX": prefix].compactMapValues(\.self)
        let text = try Dispatcher.definitions(.environment(variables), prefix: name, virtualHost: host, logger: .silent)
        let document = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: [[String: Any]]]
        let exchanges = try #require(document?["exchanges"])
        #expect(exchanges.contains { $0["name"] as? String == exchange } && exchanges.allSatisfy { $0["vhost"] as? String == isFor })
    }

    @Test("Two settings are enough; the others have defaults")
    func defaults() throws {
        let settings = try settings([:])
        #expect(settings.operationsHost == "127.0.0.1")
        #expect(settings.operationsPort == 9090)
        #expect(settings.lanes == [.now, .soon, .bulk])
        #expect(settings.prefetch == [.now: 1000, .soon: 1000, .bulk: 1000])
        #expect(settings.bulkDeliveries == 800)
        #expect(settings.maximumAttempts == 10)
        #expect(settings.confirmPatience == 650)
        #expect(settings.shutdownDeadline == .seconds(20))
        #expect(settings.endpoint(.production).host == "api.push.apple.com")
        #expect(settings.endpoint(.sandbox).host == "api.sandbox.push.apple.com")
        #expect(settings.endpoint(.sandbox).trust == .system)
        #expect(settings.endpoint(.production, .broadcast).authority == "api.push.apple.com")
        #expect(settings.endpoint(.production, .channels).authority == "api-manage-broadcast.push.apple.com:2196")
        #expect(settings.endpoint(.sandbox, .channels).authority == "api-manage-broadcast.sandbox.push.apple.com:2195")
        #expect(settings.instance.contains("-"))
    }

    @Test("Broadcasts go where device pushes go, unless they have a setting of their own") func broadcastEndpoints() throws {
        let settings = try settings([
            "APNS_PRODUCTION_URL": "https://device:1", "APNS_SANDBOX_BROADCAST_URL": "https://broadcast:2",
            "APNS_SANDBOX_CHANNELS_URL": "https://channels:3",
        ])
        #expect(settings.endpoint(.production, .broadcast).authority == "device:1")
        #expect(settings.endpoint(.sandbox, .broadcast).authority == "broadcast:2")
        #expect(settings.endpoint(.sandbox, .device).authority == "api.sandbox.push.apple.com")
        #expect(settings.endpoint(.sandbox, .channels).authority == "channels:3")
        #expect(settings.endpoint(.production, .channels).authority == "api-manage-broadcast.push.apple.com:2196")
    }

    @Test(
        "A wrong setting is one sentence that names it and shows no secret",
        arguments: [
            ("RABBITMQ_URL", ""), ("RABBITMQ_URL", "http://user:secret@broker"), ("APNS_CREDENTIALS_FILE", ""),
            ("APNS_CREDENTIALS_FILE", "/nowhere/credentials.json"), ("APNS_PRODUCTION_URL", "http://localhost:1"),
            ("APNS_PRODUCTION_CHANNELS_URL", "localhost:1"), ("PREFETCH_NOW", "0"),
            ("PREFETCH_BULK", "many"), ("LANES", "now,fast"), ("LANES", "now,now"), ("LANES", "soon,"), ("BULK_DELIVERIES", "0"),
            ("APNS_CONNECTIONS", "65"), ("APNS_CONNECTIONS_MAXIMUM", "1"),
            ("APNS_PROXY_URL", "https://user:secret@proxy:3128"), ("APNS_PROXY_URL", "http://user:secret@proxy:3128"),
            ("APNS_SANDBOX_URL", "https://user:secret@localhost:1"), ("APNS_PRODUCTION_URL", "https://localhost:65536"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:secret@collector:4318"), ("APNS_PROXY_CREDENTIALS_FILE", "/nowhere/proxy"),
            ("APNS_THREADS", "0"),
            ("APNS_CREDENTIALS_CHECK_SECONDS", "0"), ("SHUTDOWN_DEADLINE_SECONDS", "0"), ("OPERATIONS_PORT", "70000"),
            ("INSTANCE", "a b"), ("BROKER_PREFIX", "p/q"), ("LOG_LEVEL", "loud"), ("MAXIMUM_ATTEMPTS", "0"),
            ("BROKER_CONFIRM_PATIENCE_MILLISECONDS", "199"), ("BROKER_CONFIRM_PATIENCE_MILLISECONDS", "1s"),
        ])
    func explains(variable: String, value: String) throws {
        let error = try #require(throws: ConfigurationError.self) { try settings([variable: value]) }
        #expect(error.variable == variable)
        #expect(error.description.hasPrefix("\(variable) must be "))
        #expect(!error.description.contains("secret"))
    }

    @Test("A proxy's user and password belong into the file that the error names") func proxyCredentials() {
        let error = #expect(throws: ConfigurationError.self) { try settings(["APNS_PROXY_URL": "http://user:secret@proxy:3128"]) }
        #expect(error?.description.contains("APNS_PROXY_CREDENTIALS_FILE names the file with them") == true)
    }

    @Test("The check refuses a certificate outside its time, and names the moment") func validity() throws {
        let folder = try TestIdentity.configured.get().makeFolder()
        try TestIdentity.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 100 -subj /CN=shop -keyout c.pem -out c.crt", in: folder)
        let path = "\(folder)/credentials.json"
        try Data(contentsOf: URL(filePath: "\(folder)/c.crt")).appended(to: "\(folder)/c.pem")
        try Data(
            #"{"v":1,"credentials":[{"name":"shop","certificate_file":"c.pem","environments":["production","sandbox"],"apps":["shop"]}]}"#
                .utf8
        ).write(to: URL(filePath: path))
        let entry = try #require(try CredentialsFile(path: path).entries.first)
        guard case .certificate(let notBefore, let notAfter) = entry.validity else { throw NoCertificate() }
        let settings = try settings(["APNS_CREDENTIALS_FILE": path])
        func check(at now: Int64) throws -> String { try Dispatcher.check(settings, logger: .silent, now: now) }
        #expect(try check(at: notBefore).contains("certificate valid for 100 days"))
        #expect(try check(at: notAfter).contains("certificate valid for 0 days"))
        let ended = #expect(throws: CredentialsError.self) { try check(at: notAfter + 1) }
        #expect(ended?.problems == ["shop: the certificate has ended, at \(RFC3339.text(milliseconds: notAfter * 1000))"])
        let early = #expect(throws: CredentialsError.self) { try check(at: notBefore - 1) }
        #expect(early?.problems.first?.hasPrefix("shop: the certificate is not valid before ") == true)
        #expect(early?.problems.count == 1, "one sentence for two pools")
    }

    private struct NoCertificate: Error {}

    @Test("A dispatcher without the lane `now` has as much of `bulk` at work as of any lane") func lanes() throws {
        let settings = try settings(["LANES": "soon, bulk"])
        #expect(settings.lanes == [.soon, .bulk] && settings.bulkDeliveries == 20_000)
        #expect(try Dispatcher.check(settings, logger: .silent).contains("Lanes: soon, bulk."))
        #expect(try self.settings(["LANES": "now,bulk"]).bulkDeliveries == 800)
    }

    @Test("The check names every pool and shows no password")
    func checks() throws {
        let text = try Dispatcher.check(settings(["APNS_PRODUCTION_URL": "https://localhost:2197"]), logger: .silent)
        #expect(text.contains("shop (production) at localhost:2197"))
        #expect(text.contains("shop (sandbox) at api.sandbox.push.apple.com:443"))
        #expect(text.contains("other (production) at localhost:2197"))
        #expect(!text.contains("secret"))
    }
}

@Suite("The credentials file")
struct CredentialsFileTests {
    private func problems(_ text: String) throws -> [String] {
        let path = try TestIdentity.configured.get().write(text, to: "broken-\(UUID().uuidString).json")
        return try #require(throws: CredentialsError.self) { try CredentialsFile(path: path) }.problems
    }

    private func entry(_ changes: [String: String] = [:]) -> String {
        var fields = [
            "name": "\"a\"", "team_id": "\"TEAM000001\"", "key_id": "\"KEY0000001\"", "key_file": "\"shop.p8\"",
            "environments": "[\"production\"]", "apps": "[\"shop\"]",
        ]
        fields.merge(changes) { $1 }
        return "{" + fields.filter { !$0.value.isEmpty }.map { "\"\($0.key)\": \($0.value)" }.joined(separator: ", ") + "}"
    }

    @Test("Apps find their pools, and only theirs")
    func directory() throws {
        var directory = CredentialDirectory(try CredentialsFile(path: TestIdentity.configured.get().credentialsFile))
        #expect(directory.pools.map(\.credential.name) == ["shop", "shop", "other"])
        let shop = directory.number(of: Fixture.shop)
        #expect(directory.pool(app: shop, .production, topic: "any") == 0)
        #expect(directory.pool(app: shop, .sandbox, topic: "any") == 1)
        let other = directory.number(of: Fixture.other)
        #expect(directory.pool(app: other, .production, topic: "any") == 2)
        #expect(directory.pool(app: other, .sandbox, topic: "any") == nil)
        #expect(directory.serves(Fixture.other) && !directory.serves(Fixture.unconfigured))
        #expect(directory.pool(app: directory.number(of: Fixture.unconfigured), .production, topic: "any") == nil)
    }

    @Test(
        "An error names every fault and its place",
        arguments: [
            (["name": "\"Not A Name\""], "/credentials/0/name"), (["team_id": "\"short\""], "/credentials/0/team_id"),
            (["key_id": "\"key0000001\""], "/credentials/0/key_id"), (["key_file": "\"missing.p8\""], "/credentials/0/key_file"),
            (["key_file": "\"credentials.json\""], "/credentials/0/key_file"),
            (["environments": "[\"staging\"]"], "/credentials/0/environments"),
            (["environments": "[]"], "/credentials/0/environments"), (["apps": "[]"], "/credentials/0/apps"),
            (["apps": "[\"UPPER\"]"], "/credentials/0/apps"), (["apps": ""], "/credentials/0/apps"),
            (["colour": "1"], "/credentials/0/colour"),
            (["topics": "[\"com.example.shop \"]"], "/credentials/0/topics"),
            (["topics": "[\"com.example.shop\\n\"]"], "/credentials/0/topics/0"),
            (["topics": "[\"com.example.*\"]"], "/credentials/0/topics"),
            (["probe_topic": "\"com.example.shop\\n\""], "/credentials/0/probe_topic"),
            (["probe_topic": "\" com.example.shop\""], "/credentials/0/probe_topic"),
        ] as [([String: String], String)])
    func names(changes: [String: String], place: String) throws {
        let found = try problems(#"{"v":1,"credentials":[\#(entry(changes))]}"#)
        #expect(found.count == 1, "\(found)")
        #expect(found.first?.hasPrefix("\(place): ") == true, "\(found)")
    }

    @Test("An error says what is wrong with a key file") func keyFiles() throws {
        let identity = try TestIdentity.configured.get()
        let pem = try ES256PrivateKey.generate().pem()
        let oneLine = try identity.write(pem.replacing("\n", with: " "), to: "one-line.p8")
        func problem(_ keyFile: String) throws -> String? {
            try problems(#"{"v":1,"credentials":[\#(entry(["key_file": "\"\(keyFile)\""]))]}"#).first
        }
        #expect(try problem(oneLine)?.contains("from \(oneLine): its line breaks are missing") == true)
        #expect(try problem("missing.p8")?.hasSuffix("missing.p8 cannot be used: there is no such file") == true)
        #expect(try problem("~/shop.p8")?.contains("a ~ stands for no folder here") == true)
        #expect(try problem(identity.directory)?.hasSuffix("it is a folder") == true)
        let publicKey = try identity.write(try ES256PrivateKey.generate().publicKey.pem(), to: "public.p8")
        #expect(try problem(publicKey)?.hasSuffix("it holds a public key, and a private key is wanted") == true)
    }

    @Test("Secret files that others may read are warned about; a certificate without a key is no secret") func openFiles() throws {
        let identity = try TestIdentity.configured.get()
        let folder = try identity.makeFolder()
        try TestIdentity.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=shop -keyout c.key -out c.pem", in: folder)
        try Data("sesame\n".utf8).write(to: URL(filePath: "\(folder)/pass"))
        try Data(try ES256PrivateKey.generate().pem().utf8).write(to: URL(filePath: "\(folder)/a.p8"))
        let path = "\(folder)/credentials.json"
        try Data(
            #"""
            {"v":1,"credentials":[
              {"name":"a","certificate_file":"c.pem","certificate_key_file":"c.key","passphrase_file":"pass",\#
            "environments":["production"],"apps":["shop"]},
              {"name":"b","team_id":"TEAM000001","key_id":"KEY0000001","key_file":"a.p8","environments":["sandbox"],"apps":["shop"]}]}
            """#.utf8
        ).write(to: URL(filePath: path))
        func warned(_ mode: Int) throws -> [String] {
            for name in ["a.p8", "c.key", "c.pem", "credentials.json", "pass"] {
                try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: "\(folder)/\(name)")
            }
            let log = LinesOfLog()
            try CredentialsFile(path: path).files.warn(log.logger)
            return log.lines.map { line in
                #expect(line.contains("644") && line.contains("APNS_CREDENTIALS_FILE"))
                return ["a.p8", "c.key", "c.pem", "credentials.json", "pass"].first { line.contains("/\($0)\"") } ?? line
            }
        }
        #expect(try warned(0o600) == [])
        #expect(try warned(0o644) == ["a.p8", "c.key", "credentials.json", "pass"])
    }

    @Test("Two credentials may not claim the same app and environment, nor the same name")
    func refusesTwoClaims() throws {
        #expect(try problems(#"{"v":1,"credentials":[\#(entry()),\#(entry(["name": "\"b\""]))]}"#).count == 1)
        #expect(try problems(#"{"v":1,"credentials":[\#(entry()),\#(entry(["apps": "[\"other\"]"]))]}"#).count == 1)
    }

    @Test(
        "The dispatcher refuses a file that is missing, empty or of another version",
        arguments: ["", "{", #"{"v":2,"credentials":[]}"#, #"{"v":1,"credentials":[]}"#])
    func refuses(text: String) throws {
        #expect(try problems(text).count == 1)
    }

    @Test("An error shows no key")
    func hidesKeys() throws {
        let pem = try ES256PrivateKey.generate().pem()
        let path = try TestIdentity.configured.get().write(pem.replacingOccurrences(of: "M", with: "!"), to: "torn.p8")
        let torn = entry(["key_file": "\"" + path + "\""])
        let found = try problems(#"{"v":1,"credentials":[\#(torn)]}"#)
        #expect(found.count == 1)
        #expect(!found.joined().contains("BEGIN"))
    }

    @Test("Two credentials may share an app where they serve different topics, or one serves the rest")
    func sharesByTopic() throws {
        let identity = try TestIdentity.configured.get()
        let voip = entry(["name": "\"b\"", "topics": "[\"com.example.shop.voip\"]"])
        let path = try identity.write(#"{"v":1,"credentials":[\#(entry()),\#(voip)]}"#, to: "topics.json")
        let file = try CredentialsFile(path: path)
        #expect(file.entries.map(\.topics) == [[], ["com.example.shop.voip"]])
        #expect(file.entries.map(\.probeTopic) == [nil, "com.example.shop.voip"])
        #expect(try problems(#"{"v":1,"credentials":[\#(voip),\#(voip.replacingOccurrences(of: "\"b\"", with: "\"c\""))]}"#).count == 1)
    }

    @Test("A certificate may stand in PEM files, with a passphrase or without, or in PKCS #12")
    func readsCertificates() throws {
        let identity = try TestIdentity.configured.get()
        let folder = try identity.makeFolder()
        try TestIdentity.openssl(
            "req -x509 -newkey rsa:2048 -nodes -days 100 -subj /CN=shop -keyout \(folder)/c.key -out \(folder)/c.pem", in: folder)
        try TestIdentity.openssl("pkey -in c.key -aes256 -passout pass:sesame -out locked.key", in: folder)
        try TestIdentity.openssl("pkcs12 -export -in c.pem -inkey c.key -passout pass:sesame -out c.p12", in: folder)
        try Data("sesame\n".utf8).write(to: URL(filePath: "\(folder)/pass"))
        let fields = [
            #""certificate_file": "c.pem", "certificate_key_file": "c.key""#,
            #""certificate_file": "c.pem", "certificate_key_file": "locked.key", "passphrase_file": "pass""#,
            #""certificate_file": "c.p12", "passphrase_file": "pass""#,
        ]
        for fields in fields {
            let path = "\(folder)/credentials.json"
            try Data(#"{"v":1,"credentials":[{"name":"shop",\#(fields),"environments":["production"],"apps":["shop"]}]}"#.utf8)
                .write(to: URL(filePath: path))
            let entry = try #require(try CredentialsFile(path: path).entries.first)
            guard case .certificate(let notBefore, let notAfter) = entry.validity, case .certificate = entry.credential.kind else {
                Issue.record("\(fields)")
                continue
            }
            #expect(notAfter - notBefore == 100 * 86_400)
        }
        let wrong =
            #"""
            {"v":1,"credentials":[{"name":"shop",\#(fields[1].replacingOccurrences(of: "pass\"", with: "c.pem\"")),\#
            "environments":["production"],"apps":["shop"]}]}
            """#
        try Data(wrong.utf8).write(to: URL(filePath: "\(folder)/wrong.json"))
        let error = try #require(throws: CredentialsError.self) { try CredentialsFile(path: "\(folder)/wrong.json") }
        #expect(error.problems.first?.hasPrefix("/credentials/0/certificate_file: ") == true, "\(error.problems)")
    }
}

private final class LinesOfLog: Sendable {
    private let all = Mutex<[String]>([])
    var lines: [String] { all.withLock { $0 } }

    var logger: Logger {
        let sink = LogSink { line in self.all.withLock { $0.append(String(decoding: line, as: UTF8.self)) } }
        return Logger(label: "test") { JSONLogHandler(label: $0, level: .warning, sink: sink) }
    }
}

extension Data {
    fileprivate func appended(to path: String) throws {
        try (Data(contentsOf: URL(filePath: path)) + self).write(to: URL(filePath: path))
    }
}
