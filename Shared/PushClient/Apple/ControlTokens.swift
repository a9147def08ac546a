#if canImport(Network)
    // Swift 6.2 came with the SDKs of version 26; those of macOS and watchOS are the first that have this token. For Mac Catalyst Apple's
    // pages name no version.
    #if compiler(>=6.2) && (os(macOS) || os(watchOS) || (os(iOS) && !targetEnvironment(macCatalyst)))
        import WidgetKit
    #endif

    /// The token by which the server reloads a control of the app.
    ///
    /// Each control that the person has placed has a token of its own, and the server keeps one for an installation. So the app names the
    /// kind that its backend reloads. Of several controls of that kind, the one with the least id counts.
    public enum ControlTokens {
        /// Reads the token now and whenever the person opens the app, and puts it into ``PushInbox/shared``. Call it once, at launch.
        ///
        /// The system calls the push handler in the extension; the app reads the same tokens from `ControlCenter.currentControls()` (Apple,
        /// "Updating controls locally and remotely"). Without a control of this kind, and on a system without such tokens, this puts
        /// ``PushEvent/noToken(purpose:)``; if the system cannot say, ``PushEvent/tokenFailed(purpose:message:)``. If the control is placed
        /// and has no token, this asks again for ten seconds, and then puts ``PushEvent/tokenPending(purpose:)``: Apple's pages do not say
        /// whether a new control has it at once.
        /// - Parameter kind: The kind as the control's configuration names it.
        @MainActor public static func start(kind: String) {
            #if compiler(>=6.2) && (os(macOS) || os(watchOS) || (os(iOS) && !targetEnvironment(macCatalyst)))
                if #available(iOS 18.0, macOS 26.0, watchOS 26.0, *) {
                    AppActivation.each { await forward(kind) }
                    return
                }
            #endif
            PushInbox.shared.put(.noToken(purpose: .controls))
        }

        #if compiler(>=6.2) && (os(macOS) || os(watchOS) || (os(iOS) && !targetEnvironment(macCatalyst)))
            // Apple's pages do not say that `ControlCenter` is `Sendable`: no actor may lend it to WidgetKit's own executor.
            @available(iOS 18.0, macOS 26.0, watchOS 26.0, *)
            @concurrent private static func forward(_ kind: String) async {
                await TokenReading.forward(.controls) {
                    let controls = try await ControlCenter.shared.currentControls().filter { $0.kind == kind }
                    guard !controls.isEmpty else { return .absent }
                    let token = controls.filter { $0.pushInfo != nil }.min { $0.id < $1.id }?.pushInfo?.token
                    return token.map { .token($0) } ?? .pending
                }
            }
        #endif
    }
#endif
