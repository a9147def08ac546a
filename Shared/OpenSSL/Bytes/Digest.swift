internal import COpenSSL

package enum Digest {
    /// 32 bytes (FIPS 180-4).
    package static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        _ = SHA256(bytes, bytes.count, &digest)
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

/// Compares without telling through its duration where the first difference is. Different lengths are told at once.
package func constantTimeEquals(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
}
