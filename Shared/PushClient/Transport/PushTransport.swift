public import Foundation

/// One request to the platform's HTTP API.
public struct PushRequest: Sendable, Hashable {
    /// What the request does. Method and path follow from it.
    public var operation: PushOperation
    /// `PUT`, `PATCH`, `POST` or `DELETE`.
    public var method: String
    /// Percent-encoded, from `/v1/apps/…` on, with the query.
    public var path: String
    /// The headers, without `Authorization` if the app's own backend forwards the request.
    public var headers: [String: String]
    /// JSON, or nil.
    public var body: Data?
    /// The installation that the path names.
    public var installation: UUID
    /// The user whom the server must have as the owner, or refuse: `expected_user` of body or query. Nil if the request names none.
    public var expectedUser: String?
}

/// The server's answer.
public struct PushResponse: Sendable, Hashable {
    /// The HTTP status.
    public var status: Int
    /// Names in lower case.
    public var headers: [String: String]
    /// Empty if there is none. Of an error's body, the client reads the JSON field `code`.
    public var body: Data

    /// It makes the headers' names lower case; of names that differ in case only, one stays.
    public init(status: Int, headers: [String: String] = [:], body: Data = Data()) {
        self.status = status
        self.headers = Dictionary(headers.map { ($0.key.lowercased(), $0.value) }) { _, last in last }
        self.body = body
    }
}

/// Carries a request to a server. The client calls it from any thread, with one request at a time.
public protocol PushTransport: Sendable {
    /// Returns the answer, of whatever status. Throws if no answer came; the client then repeats the request later.
    ///
    /// It follows no redirect: a sign-in page that answers 200 would count as done.
    func send(_ request: PushRequest) async throws -> PushResponse
}

/// How requests reach the platform. The app never holds a key of the platform.
public enum PushServer: Sendable {
    /// The app sends requests to the company's own backend, which checks the user's session and forwards them with its key.
    ///
    /// A key may do more than an app, so the backend makes five checks: `docs/guides/forwarding.md`. `PushAPI.App.forward` makes them.
    ///
    /// The backend refuses a registration with 401 when the session is over: a late request then cannot sign a user in again. It takes a
    /// sign-out also then, and no request without a session. So the app keeps the session of each user who has left, from before each
    /// change of the session. It sends ``PushOperation/signOut`` and ``PushOperation/deregister`` with that of
    /// ``PushRequest/expectedUser``, or else with the present one. It forgets a user's session when the client says
    /// ``PushNotice/signedOut``, ``PushNotice/deregistered``, or that another user or none is registered.
    case backend(any PushTransport)

    /// The app sends requests to the token service itself, with device credentials.
    ///
    /// - Parameter credentials: Asks the company's own backend for a credential for this installation and user. See ``CredentialSource``.
    case tokenService(any PushTransport, credentials: any CredentialSource)
}

/// Gets device credentials from the app's own backend.
public protocol CredentialSource: Sendable {
    /// The backend checks that `user` is signed in in this session and that the session's installation is this one, calls
    /// `POST /v1/apps/{app}/device-credentials`, and hands the answer on. Its rules: `docs/guides/register-devices.md`.
    ///
    /// - Parameter user: Nil on a device where no user is signed in.
    /// - Returns: The credential; nil if the backend says that this user is not signed in here, or that it gives none without a user. That
    ///   is 401, 403 or 204. A redirect to a sign-in page is the same, so follow none.
    /// - Throws: If the backend cannot be asked now; the client asks again later, and asks for no other credential meanwhile.
    func credential(installation: UUID, user: String?) async throws -> DeviceCredential?
}

extension PushResponse {
    /// What the machine must know of an answer.
    var answer: RegistrationMachine.Answer {
        struct Problem: Decodable { var code: String? }
        let code = status < 400 ? nil : (try? JSONDecoder().decode(Problem.self, from: body))?.code
        // The service sends seconds. A date is another server's, and then the delay's own length must do.
        let seconds = headers["retry-after"].flatMap { Int64($0.trimmingCharacters(in: .whitespaces)) }.map { max(0, $0) }
        return .response(status: status, code: code, retryAfter: seconds.map { .seconds($0) })
    }
}
