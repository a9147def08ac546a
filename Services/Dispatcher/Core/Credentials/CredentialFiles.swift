import FoundationEssentials
import Logging
import Observability
import SystemIO

/// The files that credentials are read from, and their state when they were read, so that a later change is seen.
struct CredentialFiles: Equatable, Sendable {
    /// A file at one moment. Links are followed, because orchestrators replace mounted files by redirecting a link.
    struct Stamp: Equatable, Sendable {
        let target: String
        let inode: UInt64?
        let bytes: UInt64?
        let modified: Date?

        init(_ path: String) {
            target = URL(filePath: path).resolvingSymlinksInPath().path
            let attributes: [FileAttributeKey: Any]
            // A missing file is a state like any other: it may come.
            do { attributes = try FileManager.default.attributesOfItem(atPath: target) } catch { attributes = [:] }
            inode = Self.number(attributes[.systemFileNumber])
            bytes = Self.number(attributes[.size])
            modified = attributes[.modificationDate] as? Date
        }

        /// Foundation documents neither the type of these numbers, nor that it stays the same.
        private static func number(_ value: Any?) -> UInt64? {
            func clamp(_ value: some BinaryInteger) -> UInt64 { UInt64(clamping: value) }
            guard let integer = value as? any BinaryInteger else { return nil }
            return clamp(integer)
        }
    }

    private(set) var stamps: [String: Stamp] = [:]
    /// The secret files that others than their owner may use, with their permission bits.
    private var open: [String: UInt32] = [:]

    init() {}

    /// Stamps the same files as they are now.
    init(nowAt other: CredentialFiles) {
        stamps = other.stamps.keys.reduce(into: [:]) { $0[$1] = Stamp($1) }
    }

    /// Takes the stamp first: a change during the read counts as a later change.
    mutating func read(_ path: String, maximumBytes: Int) throws(WholeFile.Fault) -> [UInt8] {
        stamps[path] = Stamp(path)
        let file = try WholeFile(path: path, maximumBytes: maximumBytes)
        open[path] = file.openMode
        return file.bytes
    }

    /// What was read from here may be read by everybody.
    mutating func noteHoldsNoSecret(_ path: String) { open[path] = nil }

    /// Warns of the secret files that others than their owner may use.
    func warn(_ logger: Logger) {
        for (path, mode) in open.sorted(by: { $0.key < $1.key }) {
            logger.warn(ofSecretFile: path, mode: mode, setting: "APNS_CREDENTIALS_FILE")
        }
    }

    /// UNIX seconds.
    func modified(_ path: String) -> Int64? {
        stamps[path]?.modified.map { Int64($0.timeIntervalSince1970) }
    }
}
