/// The trusted authorities.
package enum TLSTrust: Sendable, Hashable {
    /// The system's bundle (`SSL_CERT_FILE` and `SSL_CERT_DIR` override it, as everywhere with OpenSSL).
    case system
    /// Only the authorities in this PEM file.
    case file(String)
}

/// Our identity: PEM files, a certificate with its chain in any order, and its key.
package struct TLSIdentity: Sendable, Equatable {
    package let certificateFile: String
    package let keyFile: String

    package init(certificateFile: String, keyFile: String) {
        self.certificateFile = certificateFile
        self.keyFile = keyFile
    }
}
