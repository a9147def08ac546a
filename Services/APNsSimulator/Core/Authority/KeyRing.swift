package import OpenSSL
import Synchronization

/// Every key whose tokens the simulator accepts, and the states of certificates. Both may come, change and go while connections live, which
/// then check their rights anew.
final class KeyRing: Sendable {
    private struct Contents {
        var keys: [String: ProviderKey] = [:]
        /// Known, and their tokens fail: they can come back.
        var revoked: [String: ProviderKey] = [:]
        var certificates: [CertificateFingerprint: CertificateState] = [:]
        var generation: UInt64 = 0
    }

    /// The most keys, and the most certificates.
    private static let most = 1000

    private let contents = Mutex(Contents())
    /// Read without the lock on every request: whether there was a change since a connection last looked.
    private let published = Atomic<UInt64>(0)
    /// Clients are asked for certificates: read for every connection.
    private let asked = Atomic<Bool>(false)

    init(_ keys: [ProviderKey]) {
        for key in keys { add(key) }
    }

    var generation: UInt64 { published.load(ordering: .acquiring) }
    var keys: [String: ProviderKey] { contents.withLock { $0.keys } }

    /// Every key with its state, by id.
    func states() -> [(key: ProviderKey, state: ProviderKey.State)] {
        let (live, revoked) = contents.withLock { ($0.keys, $0.revoked) }
        let all = live.values.map { ($0, $0.isSuspended ? ProviderKey.State.suspended : .active) } + revoked.values.map { ($0, .revoked) }
        return all.sorted { $0.0.keyID < $1.0.keyID }
    }

    /// - Returns: Whether there was such a key; nil if there is no room for another.
    @discardableResult
    func add(_ key: ProviderKey, _ state: ProviderKey.State? = nil) -> Bool? {
        change { contents in
            let isKnown = contents.keys[key.keyID] != nil || contents.revoked[key.keyID] != nil
            guard isKnown || contents.keys.count + contents.revoked.count < Self.most else { return nil }
            contents.keys[key.keyID] = state == .revoked ? nil : state.map { key.suspended($0 == .suspended) } ?? key
            contents.revoked[key.keyID] = state == .revoked ? key : nil
            return isKnown
        }
    }

    /// From now on APNs treats its tokens as those of an unknown key.
    /// - Returns: false if there is no such key.
    func remove(keyID: String) -> Bool {
        change { contents in
            let (live, revoked) = (contents.keys.removeValue(forKey: keyID), contents.revoked.removeValue(forKey: keyID))
            return live != nil || revoked != nil
        }
    }

    func revoke(keyID: String) { _ = set(.revoked, keyID: keyID) }

    /// - Returns: false if there is no such key.
    func set(_ state: ProviderKey.State, keyID: String) -> Bool {
        change { contents in
            guard let key = contents.keys.removeValue(forKey: keyID) ?? contents.revoked.removeValue(forKey: keyID) else { return false }
            if state == .revoked {
                contents.revoked[keyID] = key
            } else {
                contents.keys[keyID] = key.suspended(state == .suspended)
            }
            return true
        }
    }

    // MARK: Certificates

    /// Whether a certificate was added that no authority has signed.
    var asksForCertificates: Bool { asked.load(ordering: .acquiring) }

    func state(of fingerprint: CertificateFingerprint) -> CertificateState? { contents.withLock { $0.certificates[fingerprint] } }

    func certificates() -> [(fingerprint: CertificateFingerprint, state: CertificateState)] {
        contents.withLock { $0.certificates }.map { ($0.key, $0.value) }.sorted { $0.0.hex < $1.0.hex }
    }

    /// - Parameter state: nil leaves it to its authority again.
    /// - Returns: Whether it had a state before; nil if there is no room for another.
    func set(_ state: CertificateState?, _ fingerprint: CertificateFingerprint) -> Bool? {
        change { contents in
            let isKnown = contents.certificates[fingerprint] != nil
            guard isKnown || state == nil || contents.certificates.count < Self.most else { return nil }
            contents.certificates[fingerprint] = state
            asked.store(contents.certificates.values.contains(.active), ordering: .releasing)
            return isKnown
        }
    }

    private func change<Result>(_ body: (inout Contents) -> Result) -> Result {
        contents.withLock { contents in
            let result = body(&contents)
            contents.generation += 1
            published.store(contents.generation, ordering: .releasing)
            return result
        }
    }
}

/// SHA-256 of a client's certificate, by which the control API names it.
struct CertificateFingerprint: Hashable, Sendable {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// - Returns: nil unless the text is 64 hex digits, in either case, with or without colons between bytes as OpenSSL prints them.
    init?(_ text: String) {
        var nibbles: [UInt8] = []
        for byte in text.utf8 where byte != UInt8(ascii: ":") {
            let nibble = hexNibble(byte)
            guard nibble < 16, nibbles.count < 64 else { return nil }
            nibbles.append(nibble)
        }
        guard nibbles.count == 64 else { return nil }
        bytes = stride(from: 0, to: 64, by: 2).map { nibbles[$0] << 4 | nibbles[$0 + 1] }
    }

    /// Lower case, without colons.
    var hex: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

/// The control API's state of a certificate; it overrules the certificate's authority.
package enum CertificateState: String, Sendable, CaseIterable {
    /// Good, in its time.
    case active
    /// `BadCertificate`
    case revoked
}

/// A signing key that the simulator accepts, as Apple accepts the keys of its developer accounts.
package struct ProviderKey: Sendable {
    /// The treatment of a key's tokens: they are good, `Forbidden`, or `InvalidProviderToken`.
    package enum State: String, Sendable, CaseIterable {
        case active, suspended, revoked
    }

    package let teamID: String
    package let keyID: String
    package let publicKey: ES256PublicKey
    package let environments: Set<SimulatorEnvironment>
    /// A topic-specific key's bundle ids or whole topics; nil is a team-scoped key: every topic.
    package let topics: [String]?
    /// The key is known, its tokens are good, and every request with them is `Forbidden`.
    package let isSuspended: Bool

    package init(
        teamID: String, keyID: String, publicKey: ES256PublicKey,
        environments: Set<SimulatorEnvironment> = Set(SimulatorEnvironment.allCases), topics: [String]? = nil,
        isSuspended: Bool = false
    ) {
        self.teamID = teamID
        self.keyID = keyID
        self.publicKey = publicKey
        self.environments = environments
        self.topics = topics
        self.isSuspended = isSuspended
    }

    func suspended(_ isSuspended: Bool) -> ProviderKey {
        ProviderKey(
            teamID: teamID, keyID: keyID, publicKey: publicKey, environments: environments, topics: topics, isSuspended: isSuspended)
    }

    /// Whether the key may be used for the topic: named itself, or as the bundle id before one of Apple's suffixes.
    func allows(topic: [UInt8]) -> Bool {
        guard let topics else { return true }
        let bundleID = ServerPushType.bundleID(of: topic)
        return topics.contains { $0.utf8.elementsEqual(topic) || $0.utf8.elementsEqual(bundleID) }
    }

    /// Whether a connection that began with `first` may also see this key: another team-scoped key of the same team may follow a
    /// team-scoped one; a topic-specific key stands alone (Apple: Establishing a token-based connection to APNs).
    func isRelated(to first: ProviderKey) -> Bool {
        keyID == first.keyID || (topics == nil && first.topics == nil)
    }
}
