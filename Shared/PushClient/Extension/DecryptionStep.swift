#if canImport(CryptoKit) || canImport(Crypto)
    import Foundation

    #if canImport(CryptoKit)
        public import CryptoKit
    #else
        public import Crypto
    #endif

    /// Opens the payload's ``SealedContent``. If it cannot, the notification shows the general text that the server has sent with it.
    public struct DecryptionStep: NotificationStep {
        /// The payload has no sealed part, or the app has no such key.
        public enum Failure: Error, Hashable {
            case nothingSealed
            case unknownKey(String)
        }

        private struct Payload: Decodable {
            struct Platform: Decodable { var sealed: SealedContent? }
            var push: Platform?
        }

        private let key: @Sendable (String) throws -> SymmetricKey?

        /// - Parameter key: The key of this name, such as from a keychain group that app and extension share; nil if there is none.
        public init(key: @escaping @Sendable (String) throws -> SymmetricKey?) {
            self.key = key
        }

        /// See ``NotificationStep/improve(_:)``. Throws ``Failure``, or the error of `key`, of JSON or of ``SealedContent/open(with:)``.
        public func improve(_ content: NotificationContent) async throws -> NotificationContent {
            guard let sealed = try content.notification.decode(Payload.self).push?.sealed else { throw Failure.nothingSealed }
            guard let key = try key(sealed.key) else { throw Failure.unknownKey(sealed.key) }
            let texts = try sealed.open(with: key)
            var better = content
            better.title = texts.title ?? content.title
            better.subtitle = texts.subtitle ?? content.subtitle
            better.body = texts.body ?? content.body
            better.category = texts.category ?? content.category
            better.threadID = texts.threadID ?? content.threadID
            return better
        }
    }
#endif
