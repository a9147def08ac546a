import APNs
import OpenSSL
import PushModel

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
    /// Of the content of every file and field. A changed digest needs another pool, because a connection is bound to its first credential
    /// and topics (Apple: Establishing a token-based connection to APNs).
    var digest: [UInt8] = []
}
