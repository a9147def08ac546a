import StrictJSON

/// Installations. All calls need a key with the scope `devices`; ``installation(_:)`` takes one with `read` too. Ids are UUIDs as text.
///
/// A repeated call can come after a newer one of another task or machine. A backend that changes one installation from several places
/// states the expected user.
extension PushAPI.App {
    /// States everything about an installation. Register at each launch of the app, also if nothing has changed.
    /// - Parameters:
    ///   - expected: Who is signed in now. A call that expects another user than it registers is not repeated after a lost connection,
    ///     because its own success would be in its way.
    ///   - ifMatch: The state that the change is meant for (``PushAPI/Installation/entityTag``).
    /// - Throws: ``PushAPIError``: 409 `owner_mismatch` and 412 `precondition_failed` if the state is another one.
    @discardableResult
    public func register(
        _ id: String, _ registration: PushAPI.Registration, expected: PushAPI.ExpectedUser = .anyone, ifMatch: String? = nil
    ) async throws -> PushAPI.Installation {
        var call = PushAPI.Call(.put, path("installations", id), json: registration.json(expected))
        let isSameUser = expected == (registration.user.map { .user($0) } ?? .nobody)
        call.isRepeatable = ifMatch == nil && (expected == .anyone || isSameUser)
        return try await installation(call, ifMatch)
    }

    /// - Throws: ``PushAPIError``: 404 `not_found` for one that is not registered.
    public func installation(_ id: String) async throws -> PushAPI.Installation {
        try await installation(PushAPI.Call(.get, path("installations", id)), nil)
    }

    /// Changes the fields that `change` names. It says nothing about whether the device is alive.
    ///
    /// The call is not repeated after a lost connection if it has a condition, because its own success would be in its way.
    @discardableResult
    public func change(
        _ id: String, _ change: PushAPI.Change, expected: PushAPI.ExpectedUser = .anyone, ifMatch: String? = nil
    ) async throws -> PushAPI.Installation {
        var call = PushAPI.Call(.patch, path("installations", id), json: change.json(expected))
        call.isRepeatable = ifMatch == nil && expected == .anyone
        return try await installation(call, ifMatch)
    }

    /// Gives an installation these tags of your backend, in place of those that it gave before. The app's own tags stay as they are.
    /// - Throws: ``PushAPIError``: 404 `not_found` for one that is not registered, 412 `precondition_failed`.
    @discardableResult
    public func setTags(_ id: String, _ tags: [String], ifMatch: String? = nil) async throws -> PushAPI.Installation {
        var call = PushAPI.Call(.put, path("installations", id, "tags"), json: JSONWriter.object { $0.field("tags", tags) })
        call.isRepeatable = ifMatch == nil
        return try await installation(call, ifMatch)
    }

    /// Signs out the user of an installation, which keeps its tokens. Succeeds if there is nothing to do.
    /// - Parameter expectedUser: Refuse with 409 `owner_mismatch` if another user is signed in.
    @discardableResult
    public func signOut(_ id: String, expectedUser: String? = nil) async throws -> PushAPI.SignOut {
        let body = JSONWriter.object { $0.field("expected_user", expectedUser) }
        return try await post(path("installations", id, "logout"), body).decode()
    }

    /// Signs a user out on all installations, or on all others.
    /// - Parameter except: The installation that stays signed in.
    @discardableResult
    public func signOutEverywhere(user: String, except: String? = nil) async throws -> PushAPI.UserSignOut {
        try await post(path("users", user, "logout"), JSONWriter.object { $0.field("except", except) }).decode()
    }

    /// Signs out, retires the tokens, and forgets what the device reported. Succeeds if there is nothing to do.
    public func deregister(_ id: String, expectedUser: String? = nil) async throws {
        _ = try await api.call(.init(.delete, path("installations", id), query: [("expected_user", expectedUser)]))
    }

    /// Makes a credential for the app on one device. The caller knows that this user is signed in there: for what an app asks for there is
    /// ``deviceCredential(installation:user:lifetime:in:)``.
    /// - Parameters:
    ///   - user: The only user whom the credential can sign in; nil for none.
    ///   - lifetime: How long it may register, in whole seconds; one hour by itself.
    public func deviceCredential(installation: String, user: String?, lifetime: Duration? = nil) async throws -> PushAPI.DeviceCredential {
        let body = JSONWriter.object { body in
            body.field("installation", installation)
            body.nullable("user", user)
            body.field("lifetime_seconds", lifetime?.components.seconds)
        }
        let answer = try await post(path("device-credentials"), body)
        var credential: PushAPI.DeviceCredential = try answer.decode()
        credential.answer = PushAPI.JSON(unchecked: answer.body)
        return credential
    }

    private func installation(_ call: PushAPI.Call, _ ifMatch: String?) async throws -> PushAPI.Installation {
        var call = call
        if let ifMatch { call.headers.append(("if-match", ifMatch)) }
        let answer = try await api.call(call)
        var installation: PushAPI.Installation = try answer.decode()
        installation.entityTag = answer.headers["etag"]
        return installation
    }

    /// A POST that has the same effect once or twice.
    func post(_ path: String, _ json: [UInt8]) async throws -> PushAPI.Answer {
        var call = PushAPI.Call(.post, path, json: json)
        call.isRepeatable = true
        return try await api.call(call)
    }
}
