import Foundation

@testable import PushClient

/// The model of the server behind the client's real requests: it reads the JSON of each, and answers like the service.
final class FakeServer: PushTransport, CredentialSource {
    struct Offline: Error {}

    struct State {
        var model: ModelServer
        var isOffline = false
        var requests: [PushRequest] = []
        var isSessionOver = false
        var serial = 0
        var inFlight = 0
        var mostInFlight = 0
        /// Requests and questions for a credential, also those that found no network.
        var attempts = 0
        /// Answers of these statuses come before the model is asked.
        var answers: [PushResponse] = []
    }

    private let state: Guarded<State>

    init(needsCredential: Bool = false) {
        state = Guarded(State(model: ModelServer(needsCredential: needsCredential)))
    }

    func with<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        state.withLock { body(&$0) }
    }

    var requests: [PushRequest] { with { $0.requests } }

    func row(_ client: PushClient) -> ModelServer.Row? {
        client.status.flatMap { status in with { $0.model.rows[status.installation] } }
    }

    func send(_ request: PushRequest) async throws -> PushResponse {
        with { state in
            state.attempts += 1
            state.inFlight += 1
            state.mostInFlight = max(state.mostInFlight, state.inFlight)
        }
        await Task.yield()
        defer { with { $0.inFlight -= 1 } }
        let call = try ModelServer.Call(request)
        return try state.withLock { state in
            if state.isOffline { throw Offline() }
            state.requests.append(request)
            if !state.answers.isEmpty { return state.answers.removeFirst() }
            guard case .response(let status, let code, _) = state.model.handle(call) else { throw Offline() }
            return PushResponse(status: status, body: code.map { Data(#"{"code":"\#($0)"}"#.utf8) } ?? Data())
        }
    }

    func credential(installation: UUID, user: String?) async throws -> DeviceCredential? {
        try state.withLock { state in
            state.attempts += 1
            if state.isOffline { throw Offline() }
            if state.isSessionOver { return nil }
            state.serial += 1
            state.model.makeCredential("psd_\(state.serial)", installation: installation, user: user)
            // The whole answer of the service, as an app hands it on.
            let answer = #"{"credential":"psd_\#(state.serial)","expires_at":"2027-01-15T09:00:00Z"}"#
            return try DeviceCredential(answer: Data(answer.utf8))
        }
    }
}

extension ModelServer.Call {
    private struct Body: Decodable {
        struct Token: Decodable {
            var token: String
            var environment: PushEnvironment
            var purpose: PushTokenPurpose
        }

        var user: String?
        var token: String?
        var environment: PushEnvironment?
        var tokens: [Token]?
        var keeps: [PushTokenPurpose]?
        var appTags: [String]?
        var locale: String?
        var permission: PushPermission?

        private enum CodingKeys: String, CodingKey {
            case user, token, environment, tokens, keeps, locale, permission
            case appTags = "app_tags"
        }
    }

    init(_ request: PushRequest) throws {
        let object = try request.body.flatMap { try JSONSerialization.jsonObject(with: $0) as? [String: Any] } ?? [:]
        let body = try JSONDecoder().decode(Body.self, from: request.body ?? Data("{}".utf8))
        var expected = ExpectedUser.anyone
        if let named = object["expected_user"] { expected = .exactly(named as? String) }
        if let query = request.path.split(separator: "?").dropFirst().first {
            expected = .exactly(String(query.dropFirst("expected_user=".count)).removingPercentEncoding)
        }
        let registration = Upload.Registration(
            claim: Claim(
                user: body.user, profile: PushProfile(appTags: body.appTags ?? [], locale: body.locale, permission: body.permission)),
            tokens: (body.tokens ?? []).map { token in
                PushToken(Data(hex: token.token), purpose: token.purpose, environment: token.environment)
            },
            keeps: Set(body.keeps ?? []), expected: expected)
        let activity = ActivityName(stringLiteral: request.path.split(separator: "/").last.map(String.init) ?? "")
        let update = ActivityToken(Data(hex: body.token ?? ""), environment: body.environment ?? .production)
        let upload: Upload =
            switch request.operation {
            case .register: .register(registration)
            case .change: .change(registration)
            case .signOut: .signOut(expected)
            case .deregister: .deregister(expected)
            case .receipts: .receipts([])
            case .reportActivity: .reportActivity(activity, update, expected)
            case .endActivity: .endActivity(activity)
            }
        let credential = request.headers["Authorization"].map { String($0.dropFirst("Bearer ".count)) }
        self.init(installation: request.installation, upload: upload, credential: credential)
    }
}

extension ActivityName: ExpressibleByStringLiteral {
    /// `ride`, or `ride#2` for another activity of the same id.
    public init(stringLiteral text: String) {
        self.init(id: String(text.prefix { $0 != "#" }), instance: text)
    }
}

extension Data {
    init(hex: String) {
        var rest = Substring(hex)
        self.init()
        while let byte = UInt8(rest.prefix(2), radix: 16) {
            append(byte)
            rest = rest.dropFirst(2)
        }
    }
}
