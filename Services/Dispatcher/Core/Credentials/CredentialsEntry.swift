import APNs
import OpenSSL
import PushModel

/// One credential of the file, with what it is for.
struct CredentialsEntry: Sendable {
    /// How old a key is, or how long a certificate is good, in UNIX seconds.
    enum Validity: Equatable, Sendable {
        /// A `.p8` key bears no date: when its file was last written.
        case key(writtenAt: Int64?)
        case certificate(notBefore: Int64, notAfter: Int64)
    }

    let credential: APNsCredential
    let environments: [APNsEnvironment]
    let apps: [AppSlug]
    /// Empty: every topic that no other credential of the app names.
    var topics: [String] = []
    /// What a harmless request at the start names, to prove the credential; nil: the first real one proves it.
    var probeTopic: String?
    var validity = Validity.key(writtenAt: nil)
    /// Of the content of every file and field. Another one means another pool, because a connection is bound to the credential and to the
    /// topics that it had in the beginning (Apple: Establishing a token-based connection to APNs).
    var digest: [UInt8] = []
}
