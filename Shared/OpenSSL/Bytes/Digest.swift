internal import COpenSSL

package enum Digest {
    /// Fetched once: `SHA256()` and `EVP_sha256()` look the algorithm up again on every call (EVP_MD_fetch(3), performance). Never
    /// written after, and never freed, so that any thread may read it.
    private nonisolated(unsafe) static let sha256Method: OpaquePointer? = EVP_MD_fetch(nil, "SHA256", nil)

    /// 32 bytes (FIPS 180-4).
    package static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        guard EVP_Digest(bytes, bytes.count, &digest, nil, sha256Method ?? EVP_sha256(), nil) == 1 else {
            // A provider without EVP_MD_fetch's SHA-256; the one-shot function has no way to fail.
            _ = SHA256(bytes, bytes.count, &digest)
            return digest
        }
        return digest
    }

    /// 32 bytes (RFC 2104).
    package static func hmacSHA256(key: [UInt8], _ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        var length: UInt32 = 0
        _ = HMAC(EVP_sha256(), key, Int32(clamping: key.count), bytes, bytes.count, &digest, &length)
        return digest
    }
}

/// Compares in a time that does not depend on the position of the first difference. Different lengths return at once.
package func constantTimeEquals(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
}
