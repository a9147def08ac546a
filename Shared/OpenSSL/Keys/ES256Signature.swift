internal import COpenSSL

/// The two spellings of an ECDSA signature over P-256: JOSE's 64 bytes R‖S (RFC 7518 section 3.4) and OpenSSL's DER (RFC 3279 section 2.2.3).
enum ES256Signature {
    static let rawBytes = 64

    /// Both integers left-padded to 32 bytes; nil when this is not a DER signature of that size.
    static func raw(der: [UInt8]) -> [UInt8]? {
        let signature = der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
            var position = buffer.baseAddress
            return d2i_ECDSA_SIG(nil, &position, buffer.count)
        }
        guard let signature else { return nil }
        defer { ECDSA_SIG_free(signature) }
        var raw = [UInt8](repeating: 0, count: rawBytes)
        let fits = raw.withUnsafeMutableBufferPointer { buffer -> Bool in
            guard let base = buffer.baseAddress else { return false }
            return BN_bn2binpad(ECDSA_SIG_get0_r(signature), base, 32) == 32
                && BN_bn2binpad(ECDSA_SIG_get0_s(signature), base + 32, 32) == 32
        }
        return fits ? raw : nil
    }

    static func der(raw: [UInt8]) -> [UInt8]? {
        guard raw.count == rawBytes, let signature = ECDSA_SIG_new() else { return nil }
        defer { ECDSA_SIG_free(signature) }
        let parts = raw.withUnsafeBufferPointer { buffer -> (OpaquePointer?, OpaquePointer?) in
            (BN_bin2bn(buffer.baseAddress, 32, nil), BN_bin2bn(buffer.baseAddress.map { $0 + 32 }, 32, nil))
        }
        // From here on the signature owns both numbers.
        guard ECDSA_SIG_set0(signature, parts.0, parts.1) == 1 else {
            BN_free(parts.0)
            BN_free(parts.1)
            return nil
        }
        var der = [UInt8](repeating: 0, count: 80)
        let count = der.withUnsafeMutableBufferPointer { buffer -> Int32 in
            var position = buffer.baseAddress
            return i2d_ECDSA_SIG(signature, &position)
        }
        return count > 0 ? Array(der.prefix(Int(count))) : nil
    }
}
