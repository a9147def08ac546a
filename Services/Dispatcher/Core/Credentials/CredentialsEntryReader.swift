import APNs
import FoundationEssentials
import OpenSSL
import PushModel
import StrictJSON
import SystemIO

/// Reads one credential: its fields, and the files that they name. Faults are recorded with their place.
struct CredentialsEntryReader {
    private var reader: JSONObjectReader
    private let folder: URL
    /// The content of the entry's files, for its digest.
    private var contents: [[UInt8]] = []

    private static let maximumApps = 10_000
    /// APNs' limit for a topic-specific key (Apple: Establishing a token-based connection to APNs).
    private static let maximumTopics = 400
    private static let maximumKeyBytes = 65_536
    private static let maximumTopicBytes = 255

    init(_ reader: JSONObjectReader, folder: URL) {
        self.reader = reader
        self.folder = folder
    }

    mutating func read(files: inout CredentialFiles) -> CredentialsEntry? {
        let name = reader.string("name", maximumBytes: 64)
        if let name, AppSlug(name) == nil { reader.problem("name", "unsupported_value", "expected " + AppSlug.rule) }
        let isCertificate = reader.has("certificate_file")
        let kind = isCertificate ? certificate(&files) : token(&files)
        let environments = self.environments()
        let apps = self.apps()
        let topics = self.topics()
        let probe = probeTopic() ?? topics.first
        reader.finish()
        guard let name, let (kind, validity) = kind, !environments.isEmpty, !apps.isEmpty else { return nil }
        return CredentialsEntry(
            credential: APNsCredential(name: name, kind: kind), environments: environments, apps: apps, topics: topics, probeTopic: probe,
            validity: validity, digest: digest(name, kind, apps: apps, topics: topics, probe: probe))
    }

    // MARK: Who we are

    private mutating func token(_ files: inout CredentialFiles) -> (APNsCredential.Kind, CredentialsEntry.Validity)? {
        let team = identifier("team_id")
        let keyID = identifier("key_id")
        guard let file = reader.string("key_file", maximumBytes: 4096) else { return nil }
        let path = path(file)
        guard let bytes = content(path, "key_file", &files) else { return nil }
        do throws(TLSError) {
            let key = try ES256PrivateKey(pem: bytes)
            guard let team, let keyID else { return nil }
            return (.token(teamID: team, keyID: keyID, key: key), .key(writtenAt: files.modified(path)))
        } catch {
            reader.problem("key_file", "unreadable", "no EC P-256 private key in PEM form could be read from \(path): \(error.message)")
            return nil
        }
    }

    private mutating func certificate(_ files: inout CredentialFiles) -> (APNsCredential.Kind, CredentialsEntry.Validity)? {
        guard let file = reader.string("certificate_file", maximumBytes: 4096) else { return nil }
        let keyFile = reader.optionalString("certificate_key_file", maximumBytes: 4096)
        let passphrase = self.passphrase(&files)
        let path = path(file)
        let isPKCS12 = [".p12", ".pfx"].contains { path.lowercased().hasSuffix($0) }
        if isPKCS12, keyFile != nil { reader.problem("certificate_key_file", "not_allowed", "the key is in the certificate's file") }
        guard let bytes = content(path, "certificate_file", &files) else { return nil }
        do throws(TLSError) {
            let certificate: ClientCertificate
            if isPKCS12 {
                certificate = try ClientCertificate(pkcs12: bytes, passphrase: passphrase)
            } else {
                let keyPath = keyFile.map(self.path) ?? path
                if keyPath != path { files.noteHoldsNoSecret(path) }
                guard let key = content(keyPath, "certificate_key_file", &files) else { return nil }
                certificate = try ClientCertificate(pem: bytes, key: key, passphrase: passphrase)
            }
            return (.certificate(certificate), .certificate(notBefore: certificate.notBefore, notAfter: certificate.notAfter))
        } catch {
            reader.problem("certificate_file", "unreadable", "no certificate with its private key could be read from \(path): \(error)")
            return nil
        }
    }

    private mutating func passphrase(_ files: inout CredentialFiles) -> String? {
        guard let file = reader.optionalString("passphrase_file", maximumBytes: 4096) else { return nil }
        let path = path(file)
        guard let bytes = content(path, "passphrase_file", &files) else { return nil }
        let line = bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        return String(decoding: line, as: UTF8.self)
    }

    private func path(_ file: String) -> String {
        file.hasPrefix("/") ? file : folder.appending(path: file).path
    }

    private mutating func content(_ path: String, _ field: String, _ files: inout CredentialFiles) -> [UInt8]? {
        do throws(WholeFile.Fault) {
            let bytes = try files.read(path, maximumBytes: Self.maximumKeyBytes)
            contents.append(bytes)
            return bytes
        } catch {
            reader.problem(field, "unreadable", "\(path) cannot be used: \(error)")
            return nil
        }
    }

    /// Apple's team and key ids: ten capital letters and digits (Apple: Establishing a token-based connection to APNs).
    private mutating func identifier(_ field: String) -> String? {
        guard let text = reader.string(field, maximumBytes: 64) else { return nil }
        let isGood = text.utf8.count == 10 && text.unicodeScalars.allSatisfy { ("A"..."Z").contains($0) || ("0"..."9").contains($0) }
        if !isGood { reader.problem(field, "unsupported_value", "expected ten capital letters and digits") }
        return isGood ? text : nil
    }

    // MARK: What it is for

    private mutating func environments() -> [APNsEnvironment] {
        guard let texts = reader.strings("environments", maximumCount: APNsEnvironment.allCases.count, maximumBytes: 64) else { return [] }
        let known = texts.compactMap(APNsEnvironment.init(rawValue:))
        if known.isEmpty || known.count != texts.count || Set(known).count != known.count {
            reader.problem("environments", "unsupported_value", "expected one or both of production and sandbox")
        }
        return known
    }

    private mutating func apps() -> [AppSlug] {
        guard let texts = reader.strings("apps", maximumCount: Self.maximumApps, maximumBytes: 64) else { return [] }
        let apps = texts.compactMap { AppSlug($0) }
        if apps.isEmpty || apps.count != texts.count || Set(apps).count != apps.count {
            reader.problem("apps", "unsupported_value", "expected different app names: each " + AppSlug.rule)
        }
        return apps
    }

    private mutating func topics() -> [String] {
        guard let topics = reader.optionalStrings("topics", maximumCount: Self.maximumTopics, maximumBytes: Self.maximumTopicBytes) else {
            return []
        }
        if topics.isEmpty || !topics.allSatisfy(Self.isTopic) || Set(topics).count != topics.count {
            reader.problem("topics", "unsupported_value", "expected different topics, each \(Self.topicRule)")
        }
        return topics
    }

    private mutating func probeTopic() -> String? {
        let topic = reader.optionalString("probe_topic", maximumBytes: Self.maximumTopicBytes)
        if let topic, !Self.isTopic(topic) { reader.problem("probe_topic", "unsupported_value", "expected a topic: \(Self.topicRule)") }
        return topic
    }

    private static let topicRule = BundleID.rule + ", as in apns-topic"

    /// A bundle id with the ending of a push type, or the UID of an MDM certificate. Other characters name no topic, and a line end or a
    /// blank at an end cannot be sent at all (RFC 9113 section 8.2.1).
    private static func isTopic(_ text: String) -> Bool { BundleID.isOne(text) }

    // MARK: Which pool it is

    private func digest(
        _ name: String, _ kind: APNsCredential.Kind, apps: [AppSlug], topics: [String], probe: String?
    ) -> [UInt8] {
        var parts: [[UInt8]] = [Array(name.utf8)]
        if case .token(let team, let key, _) = kind { parts += [Array(team.utf8), Array(key.utf8)] }
        parts += contents
        parts += (apps.map(\.text).sorted() + [""] + topics.sorted() + [probe ?? ""]).map { Array($0.utf8) }
        // Each part's own digest, so that no two ways to cut the same bytes look alike.
        return Digest.sha256(parts.flatMap(Digest.sha256))
    }
}

/// One credential of the file, with its apps, environments and topics.
struct CredentialsEntry: Sendable {
    /// How old a key is, or how long a certificate is valid, in UNIX seconds.
    enum Validity: Equatable, Sendable {
        /// A `.p8` key bears no date: the time of the last write of its file.
        case key(writtenAt: Int64?)
        case certificate(notBefore: Int64, notAfter: Int64)

        /// - Parameter now: UNIX seconds.
        /// - Returns: a sentence about a certificate outside its time; nil for one that is good, and for every key.
        func fault(at now: Int64) -> String? {
            guard case .certificate(let notBefore, let notAfter) = self else { return nil }
            if now > notAfter { return "the certificate has ended, at \(Self.text(notAfter))" }
            return now < notBefore ? "the certificate is not valid before \(Self.text(notBefore)); it is \(Self.text(now)) here" : nil
        }

        private static func text(_ seconds: Int64) -> String { RFC3339.text(milliseconds: seconds * 1000) }
    }

    let credential: APNsCredential
    let environments: [APNsEnvironment]
    let apps: [AppSlug]
    /// Empty: every topic that no other credential of the app names.
    var topics: [String] = []
    /// The topic of a harmless request at the start, which proves the credential; nil: the first real request proves it.
    var probeTopic: String?
    var validity = Validity.key(writtenAt: nil)
    /// The digest of the content of every file and field. A changed digest needs another pool, because a connection is bound to its first
    /// credential and topics (Apple: Establishing a token-based connection to APNs).
    var digest: [UInt8] = []
}
