import OpenSSL

@testable import APNsSimulator

/// Provider tokens from strangers, and correctly signed ones, so that the fuzzer also reaches the checks behind the signature.
enum FuzzProviderToken {
    private static let key = Result { try ES256PrivateKey.generate() }

    static let keyRing: KeyRing = {
        guard case .success(let key) = key else { return KeyRing([]) }
        return KeyRing([ProviderKey(teamID: "TEAM000001", keyID: "KEY0000001", publicKey: key.publicKey, topics: ["com.example.shop"])])
    }()

    static func run(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        var text = Array(bytes.dropFirst())
        if first.isMultiple(of: 2), case .success(let key) = key {
            // The input holds the two parts in plain text.
            let parts = text.split(separator: UInt8(ascii: "\n"), maxSplits: 1, omittingEmptySubsequences: false)
            text = Array(parts.map { Base64URL.encode($0) }.joined(separator: ".").utf8)
            do { text += Array(("." + Base64URL.encode(try key.sign(text))).utf8) } catch { return }
        }
        var authority = ConnectionAuthority(environment: .production, keyRing: keyRing)
        for topic in ["com.example.shop", "com.example.shop.voip", "other"] {
            _ = authority.check(authorization: Array("bearer ".utf8) + text, topic: Array(topic.utf8), now: 1_800_000_000_000)
        }
        _ = authority.check(authorization: text, topic: [], now: 0)
    }
}
