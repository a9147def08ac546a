package import PushModel

/// The rows that a number of changes concern, and what the changes make of them, one after another (DESIGN.md section 3).
///
/// It is worked out in memory between one locked read and one write, so that any number of changes share a commit and the result is
/// as if they had come one by one; also where they race for the same rows within the batch.
package struct RegistryBatch {
    package internal(set) var installations: [InstallationKey: InstallationState]
    package internal(set) var tokens: [TokenState]
    /// From where tokens moved to an installation while both had the same owner: a fence of the second must reach back to them.
    package internal(set) var predecessors: [InstallationKey: Set<PushID>]
    package internal(set) var history: [HistoryEntry] = []
    /// Installations whose epoch ended; their fence covers every epoch below the present one.
    package internal(set) var fenced: Set<InstallationKey> = []
    /// Installations that got predecessors, and since lost them to a fence or not.
    package internal(set) var gainedPredecessors: Set<InstallationKey> = []
    /// Installations that were fenced though it is not known from where tokens moved to them: then the whole is worth nothing, and is to be
    /// worked out anew with all moves (``RegistryBatchStore/apply(_:to:)``).
    package internal(set) var unread: Set<InstallationKey> = []
    /// Of which installations `predecessors` tells all; nil for every one.
    let knownMoves: Set<InstallationKey>?
    /// UNIX milliseconds, read after the locks were granted.
    package let now: Int64

    /// The installation that is being changed, with the epoch that the change begins.
    var present: (key: InstallationKey, epoch: Int64)?

    private var tokensByValue: [TokenName: Int] = [:]
    private var tokensByInstallation: [InstallationKey: [Int]] = [:]

    package init(
        installations: [InstallationState], tokens: [TokenState], predecessors: [InstallationKey: Set<PushID>],
        knownMoves: Set<InstallationKey>? = nil, now: Int64
    ) {
        self.installations = Dictionary(uniqueKeysWithValues: installations.map { ($0.key, $0) })
        self.tokens = tokens
        self.predecessors = predecessors
        self.knownMoves = knownMoves
        self.now = now
        for index in tokens.indices { note(index) }
    }

    /// - Throws: ``OwnerMismatch``, ``PreconditionFailed``, ``NotRegistered``; then this change did nothing.
    package mutating func apply(_ change: RegistryChange) throws -> RegistryChange.Result {
        let key = change.installation
        let before = installations[key]
        switch change.content {
        case .registration(let registration):
            guard registration.expectedOwner.allows(before?.owner) else { throw OwnerMismatch() }
            guard registration.precondition.allows(entityTag(key)) else { throw PreconditionFailed() }
            let target = Target(
                user: registration.user, profile: registration.profile, tokens: registration.tokens, replaces: registration.replaces,
                stamps: true)
            return try reach(target, key, of: change.app)
        case .patch(let patch):
            guard let before, before.isRegistered else { throw NotRegistered() }
            guard patch.expectedOwner.allows(before.owner) else { throw OwnerMismatch() }
            guard patch.precondition.allows(entityTag(key)) else { throw PreconditionFailed() }
            return try reach(Target(patch, of: before), key, of: change.app)
        }
    }

    /// The state as the API shows it; nil where nobody is registered.
    package func record(_ key: InstallationKey) -> InstallationRecord? {
        guard let row = installations[key], row.isRegistered else { return nil }
        let held = (tokensByInstallation[key] ?? []).map { tokens[$0] }.filter { $0.installation == key.id }
        return InstallationRecord(row, tokens: held)
    }

    private func entityTag(_ key: InstallationKey) -> String? { record(key)?.etag }
}

extension RegistryBatch {
    /// A token's name in the database: unique among all installations of an app.
    struct TokenName: Hashable {
        let app: App.ID
        let token: RegisteredToken

        /// By the device's value alone: the names of environments and purposes would cost more than the few that share one.
        func hash(into hasher: inout Hasher) {
            hasher.combine(app)
            hasher.combine(token.token)
        }
    }

    func index(of named: RegisteredToken, app: App.ID) -> Int? { tokensByValue[TokenName(app: app, token: named)] }

    func indices(of installation: InstallationKey) -> [Int] {
        (tokensByInstallation[installation] ?? []).filter { tokens[$0].installation == installation.id }
    }

    mutating func add(_ token: TokenState) -> Int {
        tokens.append(token)
        note(tokens.count - 1)
        return tokens.count - 1
    }

    /// After a token moved; its old installation's list forgets it by itself.
    mutating func moved(_ index: Int) {
        let key = tokens[index].place.installation
        if tokensByInstallation[key]?.contains(index) != true { tokensByInstallation[key, default: []].append(index) }
    }

    private mutating func note(_ index: Int) {
        let token = tokens[index]
        let named = RegisteredToken(token: token.token, environment: token.environment, purpose: token.purpose)
        tokensByValue[TokenName(app: token.app, token: named)] = index
        tokensByInstallation[token.place.installation, default: []].append(index)
    }
}
