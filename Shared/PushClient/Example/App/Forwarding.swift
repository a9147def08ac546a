import Foundation
import PushClient

/// The shop has device credentials, and does not use this. An app whose backend forwards has `server: .backend(Forwarding())`, calls
/// `Forwarding.leave()` before `client.signOut()` and `client.deregister()`, and `Forwarding.heard(_:)` with each notice.
struct Forwarding: PushTransport {
    /// The tokens of the app's sessions with its backend. Yours are in the keychain.
    static var present: String? {
        get { UserDefaults.standard.string(forKey: "session") }
        set { UserDefaults.standard.set(newValue, forKey: "session") }
    }
    static var former: String? {
        get { UserDefaults.standard.string(forKey: "formerSession") }
        set { UserDefaults.standard.set(newValue, forKey: "formerSession") }
    }

    /// The backend takes a sign-out also when the session is over, and no request without one.
    func send(_ request: PushRequest) async throws -> PushResponse {
        let session =
            switch request.operation {
            case .signOut, .deregister: Self.former ?? Self.present
            case .register, .change, .reportActivity, .endActivity, .receipts: Self.present
            }
        var request = request
        request.headers["Authorization"] = session.map { "Bearer \($0)" }
        return try await URLSessionTransport(base: Session.backend).send(request)
    }

    /// Without network, the sign-out leaves after the next launch or later: until then the app keeps the session.
    static func leave() {
        guard let token = present else { return }
        (present, former) = (nil, token)
    }

    static func heard(_ notice: PushNotice) {
        switch notice {
        case .signedOut, .deregistered, .registered(user: nil): former = nil
        // The next user's registration ends the former one's time. Without a session it is the answer to one that the sign-out overtook.
        case .registered: if present != nil { former = nil }
        default: break
        }
    }
}
