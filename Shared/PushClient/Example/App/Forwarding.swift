import Foundation
import PushClient

/// The shop has device credentials, and does not use this. An app whose backend forwards has `server: .backend(Forwarding())`, calls
/// `Forwarding.leave(_:)` before `client.signOut()` and `client.deregister()`, and `Forwarding.heard(_:)` with each notice.
struct Forwarding: PushTransport {
    /// The tokens of the app's sessions with its backend. Yours are in the keychain.
    static var present: String? {
        get { UserDefaults.standard.string(forKey: "session") }
        set { UserDefaults.standard.set(newValue, forKey: "session") }
    }
    /// User and token of each session whose user has left, the newest last.
    static var former: [[String: String]] {
        get { UserDefaults.standard.array(forKey: "formerSessions") as? [[String: String]] ?? [] }
        set { UserDefaults.standard.set(newValue, forKey: "formerSessions") }
    }

    /// The backend takes no request without a session, and a sign-out also with one that is over, if the request names its user.
    func send(_ request: PushRequest) async throws -> PushResponse {
        let session =
            switch request.operation {
            case .signOut, .deregister: Self.former(of: request.expectedUser) ?? Self.present
            case .register, .change, .reportActivity, .endActivity, .receipts: Self.present
            }
        var request = request
        request.headers["Authorization"] = session.map { "Bearer \($0)" }
        return try await URLSessionTransport(base: Session.backend).send(request)
    }

    /// Without network, the sign-out leaves after the next launch or later, and other users may come and go before it: until then the app
    /// keeps the session of each.
    static func leave(_ user: String) {
        guard let token = present else { return }
        former = former.filter { $0["user"] != user } + [["user": user, "token": token]]
        present = nil
    }

    private static func former(of user: String?) -> String? {
        (former.last { $0["user"] == user } ?? former.last)?["token"]
    }

    static func heard(_ notice: PushNotice) {
        switch notice {
        case .signedOut, .deregistered, .registered(user: nil): former = []
        // The next user's registration ends the former one's time. Without a session it is the answer to one that the sign-out overtook.
        case .registered: if present != nil { former = [] }
        default: break
        }
    }
}
