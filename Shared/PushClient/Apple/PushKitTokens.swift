#if os(iOS) || os(macOS) || os(visionOS) || os(watchOS)
    import Foundation
    public import PushKit

    /// The tokens of PushKit: calls (VoIP), file providers, and complications on watchOS.
    ///
    /// The delegate of a `PKPushRegistry` is the app's, because each VoIP push must report a call before the delegate returns, or the
    /// system ends the app (Apple, "PKPushType.voIP"). Its two callbacks about tokens call these functions, on whichever queue the registry
    /// has.
    public enum PushKitTokens {
        /// Puts the token into ``PushInbox/shared``. Call it in `pushRegistry(_:didUpdate:for:)`.
        public static func updated(_ credentials: PKPushCredentials, for type: PKPushType) {
            guard let purpose = purpose(of: type) else { return }
            PushInbox.shared.put(.token(credentials.token, purpose: purpose))
        }

        /// Makes the server forget the token. Call it in `pushRegistry(_:didInvalidatePushTokenFor:)`. PushKit gives another token by
        /// itself.
        public static func invalidated(_ type: PKPushType) {
            guard let purpose = purpose(of: type) else { return }
            PushInbox.shared.put(.noToken(purpose: purpose))
        }

        private static func purpose(of type: PKPushType) -> PushTokenPurpose? {
            #if os(macOS)
                [.fileProvider: .fileprovider][type]
            #elseif os(watchOS)
                [.voIP: .voip, .complication: .complication][type]
            #else
                [.voIP: .voip, .fileProvider: .fileprovider][type]
            #endif
        }
    }
#endif
