import OpenSSL

/// The rights of a provider's certificate (Apple: Sending notification requests to APNs). The marks are those of Apple's own certificates.
struct ProviderCertificate: Sendable, Equatable {
    private enum Mark {
        static let sandbox = "1.2.840.113635.100.6.3.1"
        static let production = "1.2.840.113635.100.6.3.2"
        /// Topics: a SEQUENCE that alternates between UTF8String and a SEQUENCE about it.
        static let topics = ["1.2.840.113635.100.6.3.6", "1.2.840.113635.100.6.3.4"]
    }

    /// An authority of `CLIENT_CA_FILE` issued it, and it is in its time.
    let isTrusted: Bool
    let isInTime: Bool
    let fingerprint: CertificateFingerprint
    /// Neither mark: good for both.
    let environments: Set<SimulatorEnvironment>
    /// The topics from the extensions, else the subject's UID: the bundle id, or an MDM topic.
    let topics: [[UInt8]]

    init(_ certificate: PeerCertificate) {
        isTrusted = certificate.isTrusted
        isInTime = certificate.isInTime
        fingerprint = CertificateFingerprint(certificate.fingerprint)
        let marks = Set(certificate.extensions.map(\.identifier))
        let marked = [(Mark.sandbox, SimulatorEnvironment.sandbox), (Mark.production, .production)].filter { marks.contains($0.0) }
        environments = marked.isEmpty ? Set(SimulatorEnvironment.allCases) : Set(marked.map(\.1))
        let listed = certificate.extensions.filter { Mark.topics.contains($0.identifier) }.flatMap { Self.strings($0.value) }
        topics = listed.isEmpty ? certificate.userID.map { [Array($0.utf8)] } ?? [] : listed
    }

    /// The topic of a push that names none: only a certificate for one topic names it clearly.
    var onlyTopic: [UInt8]? { topics.count == 1 ? topics[0] : nil }

    /// - Parameter state: The control API's state of it; nil leaves it to its authority.
    func isGood(_ state: CertificateState?) -> Bool {
        switch state {
        case .active: isInTime
        case .revoked: false
        case nil: isTrusted
        }
    }

    func check(topic: [UInt8]) -> RejectionReason? {
        topics.contains(topic) ? nil : .topicDisallowed
    }

    /// The bundle ids that its topics are about.
    func covers(bundleID: [UInt8]) -> Bool {
        topics.contains { $0 == bundleID || ServerPushType.bundleID(of: $0).elementsEqual(bundleID) }
    }

    // MARK: DER

    /// The strings of a SEQUENCE's first level; broken ones are left out.
    static func strings(_ der: [UInt8]) -> [[UInt8]] {
        let (sequence, utf8, printable, ia5) = (UInt8(0x30), UInt8(0x0c), UInt8(0x13), UInt8(0x16))
        guard let outer = element(der[...]), outer.tag == sequence else { return [] }
        var rest = outer.content
        var found: [[UInt8]] = []
        while let next = element(rest) {
            if next.tag == utf8 || next.tag == printable || next.tag == ia5 { found.append(Array(next.content)) }
            rest = rest[next.content.endIndex...]
        }
        return found
    }

    /// One element with a definite length of at most 65,535 (X.690 section 8.1).
    private static func element(_ bytes: ArraySlice<UInt8>) -> (tag: UInt8, content: ArraySlice<UInt8>)? {
        var position = bytes.startIndex
        func next() -> Int? {
            guard position < bytes.endIndex else { return nil }
            defer { position += 1 }
            return Int(bytes[position])
        }
        guard let tag = next(), var length = next() else { return nil }
        if length > 0x80 {
            let digits = length - 0x80
            guard digits <= 2 else { return nil }
            length = 0
            for _ in 0..<digits {
                guard let digit = next() else { return nil }
                length = length << 8 | digit
            }
        }
        guard length <= bytes.endIndex - position else { return nil }
        return (UInt8(tag), bytes[position..<position + length])
    }
}
