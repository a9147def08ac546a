import APNs
import FoundationEssentials
import OpenSSL
import PushModel
import StrictJSON

/// The file that `APNS_CREDENTIALS_FILE` names: which key is used for which apps and environments.
///
/// `{"v":1,"credentials":[{"name","team_id","key_id","key_file","environments":["production","sandbox"],"apps":["shop"]}]}`; a key file's
/// path is relative to this file. The keys themselves are never in it.
struct CredentialsFile: Sendable {
    struct Entry: Sendable {
        let credential: APNsCredential
        let environments: [APNsEnvironment]
        let apps: [AppSlug]
    }

    let entries: [Entry]

    private static let maximumBytes = 1 << 20
    private static let maximumEntries = 1000
    private static let maximumApps = 10_000
    /// Apps are numbered with sixteen bits on their way through a pool.
    private static let maximumAppsInAll = 60_000

    init(entries: [Entry]) { self.entries = entries }

    /// Reads the file and every key that it names.
    /// - Throws: ``CredentialsError`` with everything that is wrong.
    init(path: String) throws(CredentialsError) {
        let bytes: [UInt8]
        do {
            bytes = [UInt8](try Data(contentsOf: URL(filePath: path)))
        } catch {
            throw CredentialsError(path, ["the file cannot be read"])
        }
        guard bytes.count <= Self.maximumBytes else { throw CredentialsError(path, ["the file is larger than \(Self.maximumBytes) bytes"]) }
        let folder = URL(filePath: path).deletingLastPathComponent()
        try self.init(bytes, path: path, folder: folder)
    }

    private init(_ bytes: [UInt8], path: String, folder: URL) throws(CredentialsError) {
        let value: JSONValue
        do throws(JSONError) { value = try JSONValue.parse(bytes) } catch { throw CredentialsError(path, [error.description]) }
        let problems = JSONProblems()
        var file = JSONObjectReader(value, problems: problems)
        _ = file.integer("v", in: 1...1)
        let readers = file.objects("credentials", maximumCount: Self.maximumEntries) ?? []
        file.finish()
        if file.has("credentials"), problems.isEmpty, readers.isEmpty {
            file.problem("credentials", "too_short", "at least one credential")
        }
        var claims = Claims()
        let entries = readers.compactMap { reader -> Entry? in
            var reader = reader
            return Self.entry(&reader, folder: folder, claims: &claims)
        }
        if claims.places.count > Self.maximumAppsInAll { file.problem("credentials", "too_many", "at most \(Self.maximumAppsInAll) apps") }
        guard problems.isEmpty else {
            throw CredentialsError(path, problems.list.map { "\($0.pointer.isEmpty ? "the file" : $0.pointer): \($0.detail)" })
        }
        self.entries = entries
    }

    /// What an earlier entry has taken already.
    private struct Claims {
        var names: Set<String> = []
        var places: [AppSlug: Set<APNsEnvironment>] = [:]
    }

    private static func entry(_ reader: inout JSONObjectReader, folder: URL, claims: inout Claims) -> Entry? {
        let name = reader.string("name", maximumBytes: 64)
        let team = identifier("team_id", &reader)
        let keyID = identifier("key_id", &reader)
        let key = reader.string("key_file", maximumBytes: 4096).flatMap { self.key($0, folder: folder, reader) }
        let environments = self.environments(&reader)
        let apps = self.apps(&reader)
        reader.finish()
        guard let name, let team, let keyID, let key, !environments.isEmpty, !apps.isEmpty else { return nil }
        if AppSlug(name) == nil { reader.problem("name", "unsupported_value", "expected " + AppSlug.rule) }
        if !claims.names.insert(name).inserted { reader.problem("name", "duplicate", "another credential has this name") }
        for app in apps where !claims.places[app, default: []].isDisjoint(with: environments) {
            reader.problem("apps", "duplicate", "another credential serves \(app) in the same environment")
        }
        for app in apps { claims.places[app, default: []].formUnion(environments) }
        return Entry(
            credential: APNsCredential(name: name, kind: .token(teamID: team, keyID: keyID, key: key)), environments: environments,
            apps: apps)
    }

    /// Apple's team and key ids: ten capital letters and digits (APNS.md section 1.3).
    private static func identifier(_ field: String, _ reader: inout JSONObjectReader) -> String? {
        guard let text = reader.string(field, maximumBytes: 64) else { return nil }
        let isGood = text.utf8.count == 10 && text.unicodeScalars.allSatisfy { ("A"..."Z").contains($0) || ("0"..."9").contains($0) }
        if !isGood { reader.problem(field, "unsupported_value", "expected ten capital letters and digits") }
        return isGood ? text : nil
    }

    private static func key(_ file: String, folder: URL, _ reader: JSONObjectReader) -> ES256PrivateKey? {
        let path = file.hasPrefix("/") ? file : folder.appending(path: file).path
        do {
            return try ES256PrivateKey(pemFile: path)
        } catch {
            reader.problem("key_file", "unreadable", "no EC P-256 private key in PEM form could be read from \(path)")
            return nil
        }
    }

    private static func environments(_ reader: inout JSONObjectReader) -> [APNsEnvironment] {
        guard let texts = reader.strings("environments", maximumCount: APNsEnvironment.allCases.count, maximumBytes: 64) else { return [] }
        let known = texts.compactMap(APNsEnvironment.init(rawValue:))
        if known.isEmpty || known.count != texts.count || Set(known).count != known.count {
            reader.problem("environments", "unsupported_value", "expected one or both of production and sandbox")
        }
        return known
    }

    private static func apps(_ reader: inout JSONObjectReader) -> [AppSlug] {
        guard let texts = reader.strings("apps", maximumCount: maximumApps, maximumBytes: 64) else { return [] }
        let apps = texts.compactMap { AppSlug($0) }
        if apps.isEmpty || apps.count != texts.count || Set(apps).count != apps.count {
            reader.problem("apps", "unsupported_value", "expected different app names: each " + AppSlug.rule)
        }
        return apps
    }
}

/// Everything that is wrong with a credentials file, for the person who wrote it. Never shows a key.
package struct CredentialsError: Error, Equatable, Sendable, CustomStringConvertible {
    package let path: String
    package let problems: [String]

    init(_ path: String, _ problems: [String]) {
        self.path = path
        self.problems = problems
    }

    package var description: String { "APNS_CREDENTIALS_FILE \(path): " + problems.joined(separator: "; ") + "." }
}
