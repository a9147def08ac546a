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

    /// Locks installations, and all whose tokens once moved to one of these.
    package func lockInstallations(
        _ ids: [PushID]
    ) throws -> [PushID: InstallationRow] {
        let reached = try session.execute(
            Self.reach, [.int64(app.id), .ids(ids)])
        let all = try reached.map { row in try row.id(0) }
        var rows: [PushID: InstallationRow] = [:]
        for row in try session.execute(Self.lockInstallations, [.int64(app.id), .ids(all)]) {
            let installation = InstallationRow(
                id: try row.id(0), owner: try row.optionalText(1), epoch: try row.int64(2), isRegistered: try row.bool(3))
            rows[installation.id] = installation
        }
        return rows
    }

    /// Who holds a token, active or not.
    package func holders(of token: DeviceToken, environment: APNsEnvironment?) throws -> [PushID] {
        try session.execute(
            Self.holders, [.int64(app.id), .bytes(token.bytes), .optionalText(environment?.rawValue)]
        ).map { row in try row.id(0) }
    }

    /// Who has a token alive; it stays so until the transaction's end.
    package func lockActiveHolders(of token: DeviceToken, environment: APNsEnvironment?) throws -> [PushID] {
        let rows = try session.execute(
            Self.lockActiveHolders, [.int64(app.id), .bytes(token.bytes), .optionalText(environment?.rawValue)])
        return try Set(rows.map { row in try row.id(0) }).sorted()
    }

    /// One page of them, in ascending order.
    package func installations(ownedBy user: String, after cursor: PushID, limit: Int) throws -> [PushID] {
        try session.execute(Self.ownedPage, [.int64(app.id), .text(user), .id(cursor), .int64(Int64(limit))]).map { row in try row.id(0) }
    }

    // MARK: Changes

    package func retire(_ tokens: [Int64], reason: TokenState.RetiredReason, at now: Int64) throws {
        guard !tokens.isEmpty else { return }
        try session.execute(Self.retire, [.int64Array(tokens), .text(reason.rawValue), .timestamp(milliseconds: now)])
    }

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

    /// Writes what happened to these installations into their history.
    package func tell(_ event: HistoryEntry.Event, of rows: [InstallationRow], reason: SignOutReason? = nil, at now: Int64) throws {
        let entries = rows.map { row in
            var entry = HistoryEntry(app: app.id, installation: row.id, event: event, at: now)
            entry.owner = row.owner
            entry.ownerEpoch = row.epoch
            entry.reason = reason?.rawValue
            return entry
        }
        try HistoryStore(session: session).append(entries)
    }

    /// Ends the present epoch of these installations and of all whose tokens moved to them, and writes the fences.
    /// - Returns: every installation that was fenced.
    package func fence(_ installations: [PushID], at now: Int64) throws -> [PushID] {
        guard !installations.isEmpty else { return [] }
        return try session.execute(Self.fence, [.int64(app.id), .ids(installations), .timestamp(milliseconds: now)])
            .map { row in try row.id(0) }
    }
}

/// A row of `installations`, as far as a sign-out looks at it.
package struct InstallationRow: Equatable, Sendable {
    package let id: PushID
    package let owner: String?
    package let epoch: Int64
    /// False once it was deregistered: only its epoch lives on.
    package let isRegistered: Bool
}
