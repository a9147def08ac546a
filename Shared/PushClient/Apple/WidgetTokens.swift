#if canImport(Network)
    // Swift 6.2 came with the SDKs of version 26, the first that have this token. For Mac Catalyst Apple's pages name no version.
    #if compiler(>=6.2) && (os(macOS) || os(visionOS) || os(watchOS) || (os(iOS) && !targetEnvironment(macCatalyst)))
        import WidgetKit
    #endif

    /// The token by which the server reloads the app's widgets that have a push handler.
    ///
    /// WidgetKit calls the push handler in the widget extension, whose process has an inbox of its own. The app reads the same token from
    /// `WidgetCenter.currentPushInfo` (Apple, "currentPushInfo"), so the extension need not hand it over.
    public enum WidgetTokens {
        /// Reads the token now and whenever the person opens the app, and puts it into ``PushInbox/shared``. Call it once, at launch.
        ///
        /// WidgetKit has no token if no widget with a push handler is placed, or if it has not made the token yet. While one of these kinds
        /// is placed, this asks again for ten seconds, and then puts ``PushEvent/tokenPending(purpose:)``. If none is placed, or the
        /// system has no such tokens, it puts ``PushEvent/noToken(purpose:)`` at once; if WidgetKit cannot say,
        /// ``PushEvent/tokenFailed(purpose:message:)``. So a registration that waits for ``PushTokenPurpose/widgets`` gets an answer
        /// everywhere.
        /// - Parameter kinds: Those with a push handler, as the widgets' configurations name them. A widget without one never has a token.
        @MainActor public static func start(kinds: Set<String>) {
            #if compiler(>=6.2) && (os(macOS) || os(visionOS) || os(watchOS) || (os(iOS) && !targetEnvironment(macCatalyst)))
                if #available(iOS 26.0, macOS 26.0, visionOS 26.0, watchOS 26.0, *) {
                    AppActivation.each { await forward(kinds) }
                    return
                }
            #endif
            PushInbox.shared.put(.noToken(purpose: .widgets))
        }

        #if compiler(>=6.2) && (os(macOS) || os(visionOS) || os(watchOS) || (os(iOS) && !targetEnvironment(macCatalyst)))
            // Apple's pages do not say that `WidgetCenter` is `Sendable`: no actor may lend it to WidgetKit's own executor.
            @available(iOS 26.0, macOS 26.0, visionOS 26.0, watchOS 26.0, *)
            @concurrent private static func forward(_ kinds: Set<String>) async {
                await TokenReading.forward(.widgets) {
                    if let token = await WidgetCenter.shared.currentPushInfo?.token { return .token(token) }
                    let placed = try await WidgetCenter.shared.currentConfigurations()
                    return placed.contains { kinds.contains($0.kind) } ? .pending : .absent
                }
            }
        #endif
    }
#endif
