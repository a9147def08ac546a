import Foundation
import StrictJSON

extension PushAPI {
    /// A request that the app's client library made for the platform and sent to your backend.
    public struct DeviceRequest: Sendable {
        public var method: String
        /// Percent-encoded, from `/v1/apps/` on, with the query.
        public var path: String
        /// JSON, or empty.
        public var body: [UInt8]

        public init(method: String, path: String, body: [UInt8]) {
            self.method = method
            self.path = path
            self.body = body
        }
    }

    /// The session in which your backend got a ``DeviceRequest``.
    public struct DeviceSession: Sendable {
        /// Who is signed in, or was when the session ended; nil for none.
        public var user: String?
        /// The installation that the session belongs to. The id is a claim of the app: keep the first one that a session names. If it is no
        /// UUID, every request is refused.
        public var installation: String
        /// Then it may only sign out and deregister, with its own user as `expected_user`.
        public var isOver: Bool

        public init(user: String?, installation: String, isOver: Bool = false) {
            self.user = user
            self.installation = installation
            self.isOver = isOver
        }
    }
}

extension PushAPI.DeviceSession {
    /// Whether the app may have a device credential for these.
    fileprivate func allowsCredential(_ stated: UUID?, user: String?) -> Bool {
        guard !isOver, let stated, stated == UUID(uuidString: installation) else { return false }
        return user.map { isOf($0) } ?? (self.user == nil)
    }

    /// Whether the stated user is the session's. Bytes are compared, as the service compares users.
    fileprivate func isOf(_ stated: JSONValue) -> Bool {
        guard let user else { return stated.isNull }
        return stated.stringValue?.utf8.elementsEqual(user.utf8) == true
    }

    fileprivate func isOf(_ stated: String) -> Bool { user?.utf8.elementsEqual(stated.utf8) == true }
}

extension PushAPI.App {
    /// Makes a device credential for the app that asks for it in a session: for the session's user and installation alone, and none once
    /// the session is over, also if it ends meanwhile.
    /// - Parameters:
    ///   - installation: The one that the app asks for.
    ///   - user: The user whom the app asks for; nil for none.
    ///   - lifetime: How long it may register, in whole seconds; one hour by itself.
    ///   - session: Reads the session from where it is kept. It is called before the credential is made, and again after it.
    /// - Returns: Nil if the session gives no right to it: tell the app that it gets none, by 401 or 204 and never by a redirect. It takes
    ///   other errors for a backend that cannot be asked, and waits.
    /// - Throws: ``PushAPIError``; the errors of `session`.
    public func deviceCredential(
        installation: String, user: String?, lifetime: Duration? = nil, in session: () async throws -> PushAPI.DeviceSession
    ) async throws -> PushAPI.DeviceCredential? {
        let stated = UUID(uuidString: installation)
        guard try await session().allowsCredential(stated, user: user), let stated else { return nil }
        let credential = try await deviceCredential(installation: stated.uuidString.lowercased(), user: user, lifetime: lifetime)
        return try await session().allowsCredential(stated, user: user) ? credential : nil
    }

    /// Forwards a request of the app with your key, if the session may make it:
    ///
    /// * It is one of the seven requests of the client library, for this app and the session's installation.
    /// * A registration or change names the session's user, and the session is not over. It replaces no token of another installation.
    /// * A Live Activity is reported for the session's user, by `expected_user`.
    /// * A session that is over signs out or deregisters its own user, by `expected_user`, and makes no other request.
    ///
    /// The rules, and what else your backend keeps: `docs/guides/forwarding.md`.
    ///
    /// It makes one attempt, because the client library repeats by itself.
    /// - Returns: the answer to hand to the app, of whatever status. 401: the app has to ask for a sign-in.
    /// - Throws: ``PushAPIError/lostConnection(_:)``; ``PushAPIError/refused(_:)`` if the service answers 401 or 403, which is about your
    ///   key and never about the session. Log it, and answer the app with 503 then. The error names neither the installation nor a user.
    ///   `CancellationError` if the task is cancelled.
    public func forward(_ request: PushAPI.DeviceRequest, in session: PushAPI.DeviceSession) async throws -> PushAPI.Answer {
        guard let operation = operation(of: request, installation: session.installation) else {
            return .refusal(403, "forbidden", "this session may not make this request", request)
        }
        guard operation != .invalid else {
            return .refusal(400, "invalid_path", "an activity's id has no empty part, . or .. between slashes or backslashes", request)
        }
        var body: JSONValue?
        if !request.body.isEmpty {
            // By the service's own parser, which takes no name twice: both read the same user.
            body = try? JSONValue.parse(request.body, maximumBytes: 65_536)
            guard body?.objectValue != nil else {
                return .refusal(400, "malformed_json", "the body is no JSON object of at most 64 KiB", request)
            }
        }
        let isAllowed =
            switch operation {
            case .state: !session.isOver && body?["user"].map { session.isOf($0) } == true
            // Without the field the platform would take the activity for that of whoever is signed in on the installation now.
            case .reportActivity: !session.isOver && body?["expected_user"].map { session.isOf($0) } == true
            case .receipts, .endActivity: !session.isOver
            // Without the field the platform would sign out whoever is signed in on the installation now.
            case .signOut: !session.isOver || body?["expected_user"].map { session.isOf($0) } == true
            case .deregister(let user): !session.isOver || user.map { session.isOf($0) } == true
            case .invalid: false
            }
        // The client library never states it. With your key the service would retire the token at any installation of the app.
        guard body?["replaces"].map(\.isNull) != false else {
            return .refusal(403, "forbidden", "no session may state replaces", request)
        }
        guard isAllowed else { return .refusal(401, "unauthenticated", "this user is not signed in in this session", request) }
        guard let method = PushAPI.Method(rawValue: request.method) else { return .refusal(403, "forbidden", "unknown method", request) }
        var call = PushAPI.Call(method, request.path, json: request.body.isEmpty ? nil : request.body)
        call.shownPath = "an installation"
        let answer = try await api.once(call)
        // The app would take it for the end of its session.
        return answer.status == 401 || answer.status == 403 ? try answer.accepted() : answer
    }

    private enum Operation: Equatable {
        /// A registration or a change.
        case state
        case reportActivity, endActivity, receipts, signOut
        /// A deregistration with `expected_user` of the query.
        case deregister(of: String?)
        /// The id of an activity could lead out of the activities.
        case invalid
    }

    /// - Returns: nil for all but the client library's requests for this installation.
    private func operation(of request: PushAPI.DeviceRequest, installation: String) -> Operation? {
        // The app chose the id. One with slashes or dots would lead to another route.
        guard let installation = UUID(uuidString: installation)?.uuidString.lowercased() else { return nil }
        let parts = request.path.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let root = path("installations", installation)
        guard let place = parts.first, place.hasPrefix(root) else { return nil }
        let rest = place.dropFirst(root.count)
        if parts.count == 2 {
            guard request.method == "DELETE", rest.isEmpty, let user = Self.expectedUser(parts[1]) else { return nil }
            return .deregister(of: user)
        }
        switch (request.method, rest) {
        case ("PUT", ""), ("PATCH", ""): return .state
        case ("DELETE", ""): return .deregister(of: nil)
        case ("POST", "/logout"): return .signOut
        case ("POST", "/receipts"): return .receipts
        case ("PUT", _): return Self.activity(rest).map { Self.staysInPlace($0) ? .reportActivity : .invalid }
        case ("DELETE", _): return Self.activity(rest).map { Self.staysInPlace($0) ? .endActivity : .invalid }
        default: return nil
        }
    }

    /// One parameter, and nothing after it.
    private static func expectedUser(_ query: Substring) -> String? {
        let prefix = "expected_user="
        guard query.hasPrefix(prefix), case let escaped = query.dropFirst(prefix.count), escaped.utf8.allSatisfy(isOfID) else { return nil }
        return String(escaped).removingPercentEncoding
    }

    /// The id of the activity that the path names. It may have slashes, which are escaped.
    private static func activity(_ rest: Substring) -> String? {
        let prefix = "/activities/"
        guard rest.hasPrefix(prefix), case let escaped = rest.dropFirst(prefix.count), escaped.utf8.allSatisfy(isOfID) else { return nil }
        return String(escaped).removingPercentEncoding
    }

    /// No part of an id may lead out of the activities if a server on the way takes its slashes for those of the path.
    private static func staysInPlace(_ id: String) -> Bool {
        id.split(omittingEmptySubsequences: false) { $0 == "/" || $0 == "\\" }.allSatisfy { !["", ".", ".."].contains($0) }
    }

    /// Whether an escaped id or user may have the byte.
    private static func isOfID(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: [UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "%")].contains(byte)
        }
    }
}

extension PushAPI.Answer {
    /// A problem document, as the service would answer.
    fileprivate static func refusal(_ status: Int, _ code: String, _ detail: String, _ request: PushAPI.DeviceRequest) -> Self {
        let body = JSONWriter.object { problem in
            problem.field("status", status)
            problem.field("code", code)
            problem.field("detail", detail)
        }
        return PushAPI.Answer(
            status: status, headers: ["content-type": "application/problem+json"], body: body, call: "\(request.method) an installation")
    }
}
