public import Foundation

/// `CryptoKit`: only what `PushClient` calls, with the SDK's signatures.
public struct SymmetricKey: Sendable {
    public init<D: ContiguousBytes>(data: D) { fatalError() }
}

public enum AES {
    public enum GCM {
        public struct Nonce: ContiguousBytes, Sequence, Sendable {
            public func withUnsafeBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R { fatalError() }
            public func makeIterator() -> Array<UInt8>.Iterator { fatalError() }
        }

        public struct SealedBox: Sendable {
            public var tag: Data { fatalError() }
            public var ciphertext: Data { fatalError() }
            public var nonce: Nonce { fatalError() }
            public init<D: DataProtocol>(combined: D) throws { fatalError() }
        }

        public static func seal<Plaintext: DataProtocol, AuthenticatedData: DataProtocol>(
            _ message: Plaintext, using key: SymmetricKey, nonce: Nonce? = nil, authenticating authenticatedData: AuthenticatedData
        ) throws -> SealedBox { fatalError() }

        public static func open<AuthenticatedData: DataProtocol>(
            _ sealedBox: SealedBox, using key: SymmetricKey, authenticating authenticatedData: AuthenticatedData
        ) throws -> Data { fatalError() }
    }
}
