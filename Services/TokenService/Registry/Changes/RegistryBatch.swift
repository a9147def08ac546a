package import PushModel
package import TokenServiceApps
import TokenServiceKit

/// The rows of a number of changes, and the results of these changes, one after another (`docs/registration.md`).
///
/// It computes in memory between one locked read and one write, so that any number of changes share a commit. The result is as if they had
/// come one by one, also if they race for the same rows within the batch.
package struct RegistryBatch {
    package internal(set) var installations: [InstallationKey: InstallationState]
    package internal(set) var tokens: [TokenState]
    package internal(set) var history: [HistoryEntry] = []
    /// Installations whose epoch ended; their fence covers every epoch below the present one.
    package internal(set) var fenced: Set<InstallationKey> = []
    /// The installations from which tokens moved to an installation of the same owner: a fence of the second must cover them too.
    package internal(set) var predecessors: [InstallationKey: Set<PushID>]
    /// Installations to which tokens moved within the batch.
    package internal(set) var gainedPredecessors: Set<InstallationKey> = []
    /// Whether `predecessors` is complete. If it is not, a fence makes the batch ``isIncomplete``.
    let knowsMoves: Bool
    /// A stored installation was fenced although its predecessors were not read, so the result is invalid: ``RegistryStore`` reads the
    /// moves and computes it again.
    package internal(set) var isIncomplete = false
    /// When sign-outs that ended no epoch were: of every name that a change with a device credential asks for.
    let signOuts: SignOutMoments
    /// The names of the sign-outs among the changes that ended no epoch, refused ones among them.
    package internal(set) var noted: Set<SignOutMoments.Name> = []
    /// UNIX milliseconds, read after the locks were granted.
    package let now: Int64
    let bounds: InstallationBounds

    /// The installation that is being changed, with the epoch that the change begins.
    var present: (key: InstallationKey, epoch: Int64)?

    private var tokensByValue: [TokenValue: [Int]] = [:]
    private var tokensByID: [Int64: Int] = [:]
    private var tokensByInstallation: [InstallationKey: [Int]] = [:]

    /// - Parameter predecessors: The predecessors of each installation; nil if they were not read.
    package init(
        installations: [InstallationState], tokens: [TokenState], predecessors: [InstallationKey: Set<PushID>]? = nil,
        signOuts: SignOutMoments = SignOutMoments(), now: Int64, bounds: InstallationBounds = InstallationBounds()
    ) {
        self.installations = Dictionary(uniqueKeysWithValues: installations.map { ($0.key, $0) })
        self.tokens = tokens
        self.predecessors = predecessors ?? [:]
        knowsMoves = predecessors != nil
        self.signOuts = signOuts
        self.now = now
        self.bounds = bounds
        for index in tokens.indices { enter(index) }
    }

    /// - Throws: ``OwnerMismatch``, ``CredentialRevoked``, ``PreconditionFailed``, ``NotRegistered``, ``TooManyChanges``; then this change
    ///   did nothing. A sign-out that is refused says it in its result, which is to be written.
    package mutating func apply(_ change: RegistryChange, of app: App) throws -> RegistryChange.Result {
        switch change {
        case .register, .patch, .report:
            let (target, key) = try target(of: change, app: app)
            try admitChange(of: key)
            if case .report(let report) = change, report.token != nil { answerStarts(of: key, type: report.attributesType) }
            return try reach(target, key, of: app)
        case .tag:
            // The backend's own change makes no line. A device that has used up its lines does not keep it from that.
            let (target, key) = try target(of: change, app: app)
            return try reach(target, key, of: app)
        case .signOut(let target, let expected): return signOut(keys(of: target, app: app.id), expecting: expected)
        case .supersede(let change): return try supersede(before: change, of: app)
        case .deregister(let target, let expected):
            return deregister(keys(of: target, app: app.id, whereActive: true), expecting: expected)
        case .markStale(let ids, let moment): return markStale(ids, of: app.id, unseenSince: moment)
        case .removeStale(let ids, let moment): return removeStale(ids, of: app.id, unseenSince: moment)
        case .erase(let user, let ids, let left): return erase(user, ids, left: left, of: app.id)
        case .retire, .retireActivity, .countStart, .prove, .correct, .quarantine, .restore: return apply(toToken: change)
        }
    }

    /// The state as the API shows it; nil if the installation is not registered.
    package func record(_ key: InstallationKey) -> InstallationRecord? {
        guard let row = installations[key], row.isRegistered else { return nil }
        return InstallationRecord(row, tokens: indices(of: key).map { tokens[$0] }.filter { !$0.isDeleted })
    }
}

extension RegistryBatch {
    /// The device's value. Few rows share one (``InstallationBounds/rowsOfValue``).
    private struct TokenValue: Hashable {
        let app: App.ID
        let token: DeviceToken
    }

    /// A value, an environment and a purpose are unique among all installations of an app.
    func index(of named: RegisteredToken, app: App.ID) -> Int? {
        indices(of: named.token, app: app).first { tokens[$0].environment == named.environment && tokens[$0].purpose == named.purpose }
    }

    /// Finds the app's rows of a token, in the order in which they were read or made.
    func indices(of value: DeviceToken, app: App.ID) -> [Int] { tokensByValue[TokenValue(app: app, token: value)] ?? [] }

    func index(ofToken id: Int64) -> Int? { tokensByID[id] }

    func indices(of installation: InstallationKey) -> [Int] {
        (tokensByInstallation[installation] ?? []).filter { tokens[$0].installation == installation.id }
    }

    /// Whether a stand-in has an active token, perhaps one that was not read.
    func hasActiveToken(_ standIn: InstallationKey) -> Bool {
        let met = tokensByInstallation[standIn] ?? []
        let read = met.count(where: { tokens[$0].storedPlace?.installation == standIn })
        return installations[standIn].map { $0.storedActiveTokens > read } ?? false
            || met.contains { tokens[$0].isActive && tokens[$0].installation == standIn.id }
    }

    mutating func add(_ token: TokenState) {
        tokens.append(token)
        enter(tokens.count - 1)
    }

    /// Enters a token that moved to another installation or environment. The list of the installation that it left forgets it by itself.
    mutating func moved(_ index: Int) { enter(index) }

    private mutating func enter(_ index: Int) {
        let token = tokens[index]
        let value = TokenValue(app: token.app, token: token.token)
        if tokensByValue[value]?.contains(index) != true { tokensByValue[value, default: []].append(index) }
        if let id = token.id { tokensByID[id] = index }
        if tokensByInstallation[token.holder]?.contains(index) != true { tokensByInstallation[token.holder, default: []].append(index) }
    }
}

extension RegistryBatch {
    /// Ends the present epoch of these installations and of all whose tokens moved to them.
    /// - Returns: every installation that was fenced.
    mutating func fence(_ ended: [InstallationKey]) -> Set<InstallationKey> {
        var waiting = ended
        var seen: Set<InstallationKey> = []
        while let key = waiting.popLast() {
            guard seen.insert(key).inserted, let row = installations[key] else { continue }
            // A new installation can only have moves from within the batch.
            if !knowsMoves, row.isStored { isIncomplete = true }
            installations[key]?.endEpoch()
            fenced.insert(key)
            let reached = predecessors.removeValue(forKey: key) ?? []
            waiting += reached.map { InstallationKey(app: key.app, id: $0) }
            // Its earlier epochs are all fenced, so no later fence needs to cover it.
            for successor in predecessors.keys where successor.app == key.app { predecessors[successor]?.remove(key.id) }
        }
        return seen
    }

    mutating func record(_ event: HistoryEntry.Event, _ key: InstallationKey, _ fill: (inout HistoryEntry) -> Void = { _ in }) {
        var entry = HistoryEntry(app: key.app, installation: key.id, event: event, at: now)
        entry.ownerEpoch = present?.key == key ? present?.epoch : installations[key]?.epoch
        fill(&entry)
        history.append(entry)
    }
}

/// Rules 5, 7 and 8, staleness and erasure: all ways in which a user's time at installations ends.
extension RegistryBatch {
    /// Finds the installations that a change is about, in ascending order.
    func keys(of target: RegistryChange.Target, app: App.ID, whereActive: Bool = false) -> [InstallationKey] {
        switch target {
        case .installation(let id): return [InstallationKey(app: app, id: id)]
        case .user(let user, let ids): return keys(ids, of: app).filter { installations[$0]?.owner.hasSameBytes(as: user) == true }
        case .token(let token, let environment):
            let rows = tokens.filter {
                $0.app == app && $0.token == token && (environment == nil || $0.environment == environment) && ($0.isActive || !whereActive)
            }
            return Set(rows.map(\.holder)).sorted()
        }
    }

    private func keys(_ ids: [PushID], of app: App.ID) -> [InstallationKey] {
        ids.map { InstallationKey(app: app, id: $0) }.filter { installations[$0] != nil }.sorted()
    }

    /// Refuses if another user than expected is signed in there. An installation without a user is as every sign-out wants it. Whatever the
    /// answer, no late sign-in undoes the sign-out.
    private mutating func refusal(of keys: [InstallationKey], expecting expected: ExpectedOwner) -> (any Error)? {
        for key in keys { note(key, expecting: expected) }
        do {
            for row in keys.compactMap({ installations[$0] }) where row.owner != nil {
                try expected.checkPresent(row.owner, epoch: row.epoch)
            }
            return nil
        } catch {
            return error
        }
    }

    /// Notes a sign-out that ends no epoch: the user whom it names is not signed in there, or if it names none, no user is. A device names
    /// its own user. If its credential's epoch has ended, the device could not sign in any more, and there is nothing to note.
    private mutating func note(_ key: InstallationKey, expecting expected: ExpectedOwner) {
        let row = installations[key]
        let user: String?
        switch expected {
        case .anyone:
            if row?.owner == nil { noted.insert(.init(key)) }
            return
        case .exactly(let named): user = named
        case .device(let own, _):
            guard own.ownerEpoch == row?.epoch ?? 0 else { return }
            user = own.user
        }
        // One without a user takes nothing from the user who is there.
        if row?.owner == nil || user != nil && !(row?.owner).hasSameBytes(as: user) { noted.insert(.init(user, at: key)) }
    }

    /// Refuses a device whose credential was made before a sign-out that ended no epoch (``SignOutMoments``).
    func checkCredential(of expected: ExpectedOwner, in app: App) throws {
        guard let credential = expected.credential else { return }
        for name in expected.signOuts(of: app) { try signOuts.check(credential, against: name) }
        guard credential.issuedAt > (now - SignOutMoments.kept) * 1000 else { throw CredentialRevoked() }
    }

    mutating func signOut(_ keys: [InstallationKey], expecting expected: ExpectedOwner) -> RegistryChange.Result {
        if let refusal = refusal(of: keys, expecting: expected) { return RegistryChange.Result(refusal: refusal) }
        let ended = keys.filter { installations[$0]?.owner != nil }
        for key in ended { end(key, .logout) }
        return RegistryChange.Result(installations: ended, fenced: fence(ended))
    }

    mutating func supersede(before change: RegistryChange, of app: App) throws -> RegistryChange.Result {
        let (target, key) = try target(of: change, app: app)
        try admitChange(of: key)
        guard let user = target.user else { return RegistryChange.Result() }
        let ended = supersede(othersOf: user, than: key)
        return RegistryChange.Result(installations: ended, fenced: fence(ended))
    }

    mutating func supersede(othersOf user: String, than key: InstallationKey) -> [InstallationKey] {
        let others = installations.values.filter { $0.key.app == key.app && $0.key != key && $0.owner.hasSameBytes(as: user) }
            .map(\.key).sorted()
        for other in others { end(other, .superseded, by: key.id) }
        return others
    }

    private mutating func end(_ key: InstallationKey, _ reason: SignOutReason, by successor: PushID? = nil) {
        let owner = installations[key]?.owner
        record(.signedOut, key) {
            $0.owner = owner
            $0.reason = reason.rawValue
            $0.otherInstallation = successor
        }
        installations[key]?.signOut(reason)
    }

    mutating func deregister(_ keys: [InstallationKey], expecting expected: ExpectedOwner) -> RegistryChange.Result {
        if let refusal = refusal(of: keys, expecting: expected) { return RegistryChange.Result(refusal: refusal) }
        return deregister(keys.filter { installations[$0]?.isRegistered == true }, .deregistered, tokens: .deregistered)
    }

    private mutating func deregister(
        _ keys: [InstallationKey], _ reason: SignOutReason, tokens tokenReason: TokenState.RetiredReason
    ) -> RegistryChange.Result {
        for key in keys {
            for index in indices(of: key) where tokens[index].isActive { tokens[index].retire(tokenReason, at: now) }
            let owner = installations[key]?.owner
            record(.deregistered, key) {
                $0.owner = owner
                $0.reason = reason == .deregistered ? nil : reason.rawValue
            }
            installations[key]?.deregister(reason, at: now)
        }
        return RegistryChange.Result(installations: keys, fenced: fence(keys))
    }

    mutating func markStale(_ ids: [PushID], of app: App.ID, unseenSince moment: Int64) -> RegistryChange.Result {
        let marked = stale(ids, of: app, unseenSince: moment).filter { installations[$0]?.staleSince == nil }
        for key in marked {
            let owner = installations[key]?.owner
            record(.stale, key) { $0.owner = owner }
            installations[key]?.staleSince = now
            installations[key]?.needs(.everything)
        }
        return RegistryChange.Result(installations: marked)
    }

    mutating func removeStale(_ ids: [PushID], of app: App.ID, unseenSince moment: Int64) -> RegistryChange.Result {
        let marked = stale(ids, of: app, unseenSince: moment).filter { installations[$0]?.staleSince != nil }
        return deregister(marked, .stale, tokens: .stale)
    }

    private func stale(_ ids: [PushID], of app: App.ID, unseenSince moment: Int64) -> [InstallationKey] {
        keys(ids, of: app).filter { key in installations[key].map { $0.isRegistered && $0.registeredAt < moment } ?? false }
    }

    /// Writes no history: it is about to lose all that names the user.
    mutating func erase(_ user: String, _ ids: [PushID], left: Set<PushID>, of app: App.ID) -> RegistryChange.Result {
        let erased = keys(ids, of: app).filter { key in
            guard let row = installations[key] else { return false }
            if let owner = row.owner { return owner.hasSameBytes(as: user) }
            return left.contains(key.id) && (row.isRegistered || row.signedOutReason != .erased)
        }
        var deleted = 0
        for key in erased {
            for index in indices(of: key) {
                tokens[index].delete()
                deleted += 1
            }
            installations[key]?.deregister(.erased, at: now)
            installations[key]?.createdAt = now
            installations[key]?.registeredAt = now
            installations[key]?.staleSince = nil
        }
        return RegistryChange.Result(installations: erased, tokens: deleted, fenced: fence(erased))
    }
}
