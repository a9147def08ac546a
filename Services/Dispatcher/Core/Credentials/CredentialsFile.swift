import APNs
import FoundationEssentials
import PushModel
import StrictJSON
import SystemIO

/// The file that `APNS_CREDENTIALS_FILE` names: the keys and certificates of apps, environments and topics. This service's README describes
/// its fields. It holds paths, never keys or certificates.
struct CredentialsFile: Sendable {
    let entries: [CredentialsEntry]
    /// All files that were read, so that a later change can be found.
    let files: CredentialFiles

    private static let maximumBytes = 1 << 20
    private static let maximumEntries = 1000
    /// Apps are numbered with sixteen bits on their way through a pool.
    private static let maximumAppsInAll = 60_000

    init(entries: [CredentialsEntry]) {
        self.entries = entries
        files = CredentialFiles()
    }

    /// Reads the file and every file that it names.
    /// - Throws: ``CredentialsError`` with every fault, and the files that were tried, also those that could not be read.
    init(path: String) throws(CredentialsError) {
        var files = CredentialFiles()
        let problems: [String]
        do throws(WholeFile.Fault) {
            let bytes = try files.read(path, maximumBytes: Self.maximumBytes)
            switch Self.entries(bytes, folder: URL(filePath: path).deletingLastPathComponent(), files: &files) {
            case .success(let entries):
                self.entries = entries
                self.files = files
                return
            case .failure(let found): problems = found.list
            }
        } catch {
            problems = [error.description]
        }
        throw CredentialsError(path, problems, files: files)
    }

    private struct Problems: Error { let list: [String] }

    private static func entries(_ bytes: [UInt8], folder: URL, files: inout CredentialFiles) -> Result<[CredentialsEntry], Problems> {
        let value: JSONValue
        do throws(JSONError) { value = try JSONValue.parse(bytes) } catch { return .failure(Problems(list: [error.description])) }
        let problems = JSONProblems()
        var file = JSONObjectReader(value, problems: problems)
        _ = file.integer("v", in: 1...1)
        let readers = file.objects("credentials", maximumCount: maximumEntries) ?? []
        file.finish()
        if file.has("credentials"), problems.isEmpty, readers.isEmpty {
            file.problem("credentials", "too_short", "at least one credential")
        }
        var claims = CredentialClaims()
        var entries: [CredentialsEntry] = []
        for reader in readers {
            var entry = CredentialsEntryReader(reader, folder: folder)
            if let read = entry.read(files: &files) {
                claims.add(read, reader)
                entries.append(read)
            }
        }
        if claims.apps > maximumAppsInAll { file.problem("credentials", "too_many", "at most \(maximumAppsInAll) apps") }
        guard problems.isEmpty else {
            return .failure(Problems(list: problems.list.map { "\($0.pointer.isEmpty ? "the file" : $0.pointer): \($0.detail)" }))
        }
        return .success(entries)
    }
}

/// The names, and the apps with environments and topics, that earlier entries have taken.
private struct CredentialClaims {
    private struct Place: Hashable {
        let app: AppSlug
        let environment: APNsEnvironment
        /// Nil: every topic that no other credential of the app names.
        let topic: String?
    }

    private var names: Set<String> = []
    private var places: Set<Place> = []
    private var known: Set<AppSlug> = []

    var apps: Int { known.count }

    mutating func add(_ entry: CredentialsEntry, _ reader: JSONObjectReader) {
        if !names.insert(entry.credential.name).inserted { reader.problem("name", "duplicate", "another credential has this name") }
        for app in entry.apps {
            known.insert(app)
            let topics = entry.topics.isEmpty ? [nil] : entry.topics.map(Optional.some)
            let added = entry.environments.flatMap { environment in
                topics.map { places.insert(Place(app: app, environment: environment, topic: $0)).inserted }
            }
            if added.contains(false) {
                reader.problem("apps", "duplicate", "another credential serves \(app) in the same environment and for the same topics")
            }
        }
    }
}

/// Every fault of a credentials file, for the person who wrote it. Never shows a key.
package struct CredentialsError: Error, Equatable, Sendable, CustomStringConvertible {
    package let path: String
    package let problems: [String]
    /// The files that were tried, also those that could not be read: if one of them changes, another try is worthwhile.
    let files: CredentialFiles

    init(_ path: String, _ problems: [String], files: CredentialFiles) {
        self.path = path
        self.problems = problems
        self.files = files
    }

    package var description: String { "APNS_CREDENTIALS_FILE \(path): " + problems.joined(separator: "; ") + "." }
}
