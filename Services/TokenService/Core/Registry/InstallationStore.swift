package import Postgres
package import PushModel

/// The registry's SQL for one app within one transaction. The rules are its callers'; rows never leave but as values.
package struct InstallationStore {
    let session: PostgresSession
    let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// PostgreSQL's clock after the locks were granted, rounded up to the API's millisecond, so that a 410 which Apple stamped
    /// within that millisecond but before the registration does not retire the token.
    package func clock() throws -> Int64 {
        try session.execute(Self.clock).only().timestampMilliseconds(0)
    }

    // MARK: Locks

    /// Locks every installation that a registration may change: itself, holders of its tokens, under the single policy its user's
    /// others, and all whose tokens once moved to one of these.
    package func lockInstallations(concernedBy registration: Registration, singleOwner: Bool) throws -> [PushID: InstallationRow] {
        var tokens = registration.tokens.map(\.token.bytes)
        if let replaces = registration.replaces { tokens.append(replaces.bytes) }
        return try lockInstallations([registration.installation], holding: tokens, ownedBy: singleOwner ? registration.user : nil)
    }

    package func lockInstallations(
        _ ids: [PushID], holding tokens: [[UInt8]] = [], ownedBy user: String? = nil
    ) throws -> [PushID: InstallationRow] {
        let reached = try session.execute(
            Self.reach, [.int64(app.id), .ids(ids), .bytesArray(tokens), .optionalText(user)])
        let all = try reached.map { row in try row.id(0) }
        var rows: [PushID: InstallationRow] = [:]
        for row in try session.execute(Self.lockInstallations, [.int64(app.id), .ids(all)]) {
            let installation = InstallationRow(
                id: try row.id(0), owner: try row.optionalText(1), epoch: try row.int64(2), isRegistered: try row.bool(3))
            rows[installation.id] = installation
        }
        return rows
    }

    /// Locks the token rows that a registration concerns: its own, the ones it names and the one it replaces.
    package func lockTokens(_ registration: Registration) throws -> [TokenRow] {
        var tokens = registration.tokens.map(\.token.bytes)
        if let replaces = registration.replaces { tokens.append(replaces.bytes) }
        return try session.execute(
            Self.lockTokens, [.int64(app.id), .bytesArray(tokens), .id(registration.installation)]
        ).map { row in
            TokenRow(
                id: try row.int64(0), environment: try row.text(1), purpose: try row.text(2), token: try row.bytes(3),
                installation: try row.id(4), isActive: try row.bool(5))
        }
    }

    /// Who holds a token, active or not.
    package func holders(of token: DeviceToken, environment: APNsEnvironment?) throws -> [PushID] {
        try session.execute(
            Self.holders, [.int64(app.id), .bytes(token.bytes), .optionalText(environment?.rawValue)]
        ).map { row in try row.id(0) }
    }

    package func installations(ownedBy user: String) throws -> [PushID] {
        try session.execute(Self.owned, [.int64(app.id), .text(user)]).map { row in try row.id(0) }
    }

    // MARK: Changes

    package func upsert(_ registration: Registration, at now: Int64) throws {
        let profile = registration.profile
        try session.execute(
            Self.upsert,
            [
                .int64(app.id), .id(registration.installation), .optionalText(registration.user), .timestamp(milliseconds: now),
                .optionalText(profile.locale), .optionalText(profile.timeZone), .optionalText(profile.appVersion),
                .optionalText(profile.osVersion), .optionalText(profile.deviceModel), .textArray(profile.tags),
            ])
    }

    package enum RetiredReason: String { case replaced, removed, deregistered }

    package func retire(_ tokens: [Int64], reason: RetiredReason, at now: Int64) throws {
        guard !tokens.isEmpty else { return }
        try session.execute(Self.retire, [.int64Array(tokens), .text(reason.rawValue), .timestamp(milliseconds: now)])
    }

    /// Makes the tokens this installation's, alive and registered now, wherever they were before.
    package func bind(_ tokens: [RegisteredToken], to installation: PushID, at now: Int64) throws {
        guard !tokens.isEmpty else { return }
        try session.execute(
            Self.bind,
            [
                .int64(app.id), .id(installation), .timestamp(milliseconds: now), .textArray(tokens.map(\.environment.rawValue)),
                .textArray(tokens.map(\.purpose.rawValue)), .bytesArray(tokens.map(\.token.bytes)),
            ])
    }

    package enum SignOutReason: String { case logout, superseded, deregistered }

    package func signOut(_ installations: [PushID], reason: SignOutReason) throws {
        guard !installations.isEmpty else { return }
        try session.execute(Self.signOut, [.int64(app.id), .ids(installations), .text(reason.rawValue)])
    }

    /// Forgets what an installation told, and its tokens; its epoch stays.
    package func deregister(_ installation: PushID, at now: Int64) throws {
        let tokens = try session.execute(Self.lockActiveTokens, [.int64(app.id), .id(installation)]).map { row in try row.int64(0) }
        try retire(tokens, reason: .deregistered, at: now)
        try session.execute(Self.deregister, [.int64(app.id), .id(installation), .timestamp(milliseconds: now)])
    }

    /// Ends the present epoch of these installations and of all whose tokens moved to them, and writes the fences.
    /// - Returns: every installation that was fenced.
    package func fence(_ installations: [PushID], at now: Int64) throws -> [PushID] {
        guard !installations.isEmpty else { return [] }
        return try session.execute(Self.fence, [.int64(app.id), .ids(installations), .timestamp(milliseconds: now)])
            .map { row in try row.id(0) }
    }

    package func noteMoves(from predecessors: [PushID], to successor: PushID, at now: Int64) throws {
        guard !predecessors.isEmpty else { return }
        try session.execute(
            Self.noteMoves, [.int64(app.id), .ids(predecessors), .id(successor), .timestamp(milliseconds: now)])
    }
}
