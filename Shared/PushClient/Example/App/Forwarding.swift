import Foundation
import PushClient

/// The shop has device credentials, and does not use this. An app whose backend forwards has `server: .backend(Forwarding())`, and calls
/// `Forwarding.heard(_:)` with each notice. It calls `Forwarding.leave(_:)` before each change of the session: before `client.signOut()`
/// and `client.deregister()`, and before another user's session takes its place.
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
            case .signOut, .deregister: Self.session(ending: request.expectedUser)
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

    /// The user's own, if the app has it. The present one ends the time of any user, and one that is over does not.
    private static func session(ending user: String?) -> String? {
        former.last { $0["user"] == user }?["token"] ?? present ?? former.last?["token"]
    }

    static func heard(_ notice: PushNotice) {
        switch notice {
        case .signedOut, .deregistered, .registered(user: nil): former = []
        // It has ended the time of every other user. Its own may have left before this answer, and is then still to be signed out.
        case .registered(let user?): former = former.filter { $0["user"] == user }
        default: break
        }
    }
}
