#if canImport(CryptoKit) || canImport(Crypto)
    public import Foundation

    #if canImport(CryptoKit)
        public import CryptoKit
    #else
        public import Crypto
    #endif

    /// Texts that only the device can read: AES-256-GCM, as a server puts it into the payload beside a general `alert`.
    ///
    ///     "push": {"sealed": {"v": 1, "key": "2026-11", "box": "<base64 of nonce (12 bytes), ciphertext, tag (16 bytes)>"}}
    ///
    /// The plain text is JSON, each field optional: `{"title": "…", "subtitle": "…", "body": "…", "category": "…", "thread_id": "…"}`. The
    /// additional authenticated data is the UTF-8 of `push-sealed-v1:` and the name of the key.
    public struct SealedContent: Codable, Sendable, Hashable {
        /// The version of the envelope. This library opens 1 only.
        public var v: Int
        /// Which key opens it.
        public var key: String
        /// Nonce (12 bytes), ciphertext and tag (16 bytes), one after another; base64 in JSON.
        public var box: Data

        /// The plain text in the box.
        public struct Texts: Codable, Sendable, Hashable {
            /// JSON key `title`; nil keeps the notification's title.
            public var title: String?
            /// JSON key `subtitle`; nil keeps the notification's subtitle.
            public var subtitle: String?
            /// JSON key `body`; nil keeps the notification's body.
            public var body: String?
            /// JSON key `category`; nil keeps the notification's category.
            public var category: String?
            /// JSON key `thread_id`; nil keeps the notification's thread.
            public var threadID: String?

            private enum CodingKeys: String, CodingKey {
                case title, subtitle, body, category
                case threadID = "thread_id"
            }

            /// The JSON leaves out what is nil.
            public init(
                title: String? = nil, subtitle: String? = nil, body: String? = nil, category: String? = nil, threadID: String? = nil
            ) {
                self.title = title
                self.subtitle = subtitle
                self.body = body
                self.category = category
                self.threadID = threadID
            }
        }

        /// The envelope is of a later version than 1, which this library cannot open.
        public struct UnknownVersion: Error, Hashable {
            /// The envelope's `v`.
            public let version: Int
        }

        /// What a server does. Here for tests, and for servers in Swift.
        public init(sealing texts: Texts, key name: String, with key: SymmetricKey) throws {
            v = 1
            self.key = name
            let sealed = try AES.GCM.seal(JSONEncoder().encode(texts), using: key, authenticating: Self.context(name))
            box = Data(sealed.nonce) + sealed.ciphertext + sealed.tag
        }

        /// - Throws: ``UnknownVersion``, or what CryptoKit or the JSON decoder throws if key or box are wrong.
        public func open(with key: SymmetricKey) throws -> Texts {
            guard v == 1 else { throw UnknownVersion(version: v) }
            let plain = try AES.GCM.open(AES.GCM.SealedBox(combined: box), using: key, authenticating: Self.context(self.key))
            return try JSONDecoder().decode(Texts.self, from: plain)
        }

        private static func context(_ key: String) -> Data { Data("push-sealed-v1:\(key)".utf8) }
    }
#endif
