import Foundation

/// A look at a token that the system hands to no callback of the app.
enum TokenReading: Sendable {
    case token(Data)
    /// There is none, and the system makes none.
    case absent
    /// The system may still be making it.
    case pending

    /// The time between two of at most three looks, in seconds of running.
    static let pause = 5

    /// Looks, and puts the answer into the inbox. A token that is pending after ten seconds of running is none of this launch: the server
    /// keeps that of an earlier one. A registration retires an absent one.
    static func forward(
        _ purpose: PushTokenPurpose, to inbox: PushInbox = .shared, clock: any PushClock = SystemPushClock(),
        _ look: () async throws -> TokenReading
    ) async {
        do {
            for pause in [pause, pause, 0] {
                switch try await look() {
                case .token(let token): return inbox.put(.token(token, purpose: purpose))
                case .absent: return inbox.put(.noToken(purpose: purpose))
                case .pending: break
                }
                // The system may make nothing for a suspended process: a second that lasts for an hour is one second.
                for _ in 0..<pause { try await clock.sleep(for: .seconds(1)) }
            }
            inbox.put(.tokenPending(purpose: purpose))
        } catch {
            inbox.put(.tokenFailed(purpose: purpose, message: "\(error)"))
        }
    }
}
