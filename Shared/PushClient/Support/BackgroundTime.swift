/// The time that the system lets an app run on after the person has left it.
///
/// The app delegates of this library bring one where the system suspends apps. Tests bring one of their own.
@MainActor public protocol BackgroundTime: Sendable {
    /// Asks for the time.
    ///
    /// - Parameter expired: The system takes the time back: the client ends it before this returns. It may come before `begin` returns.
    /// - Returns: Ends the time; the client calls it once. Nil if the system gives none.
    func begin(expired: @escaping @MainActor @Sendable () -> Void) -> (@MainActor @Sendable () -> Void)?
}

/// Holds background time while there is work, once at a time, and always gives it back: the system ends an app that does not.
@MainActor final class BackgroundHold {
    private var end: (@MainActor @Sendable () -> Void)?
    private var work: Int?
    /// The system took the time of this work back, and would give it no other.
    private var expired: Int?

    nonisolated init() {}

    /// - Parameter work: The number of the work that needs time now. Nil if none does.
    func update(_ time: any BackgroundTime, for work: Int?) {
        self.work = work
        guard let work else { return release() }
        guard end == nil, work != expired else { return }
        // The system keeps this closure, and with it the hold, until the time ends.
        end = time.begin {
            self.expired = self.work
            self.release()
        }
        if work == expired { release() }
    }

    private func release() {
        let held = end
        end = nil
        held?()
    }
}
