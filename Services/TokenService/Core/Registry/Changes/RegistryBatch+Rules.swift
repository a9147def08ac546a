import PushModel

extension RegistryBatch {
    /// The state that one installation is to have.
    struct Target {
        var user: String?
        var profile: InstallationProfile
        /// Nil to leave them alone.
        var tokens: [RegisteredToken]?
        var replaces: DeviceToken?
        /// Whether the device itself speaks, so that its moment counts.
        var stamps: Bool
    }

    /// The eight rules, in their order.
    mutating func reach(_ wanted: Target, _ key: InstallationKey, of app: App) throws -> RegistryChange.Result {
        let before = installations[key]
        let isNew = before?.isRegistered != true
        // A later registration must have a later moment, or a 410 stamped between the two would find no difference.
        let moment = max(now, (before?.registeredAt ?? 0) + 1)
        // What is told of this installation from here on happens in the epoch that the change begins.
        let epoch = before.map { $0.owner.hasSameBytes(as: wanted.user) ? $0.epoch : $0.epoch + 1 } ?? 1
        present = (key, epoch)
        defer { present = nil }
        store(wanted, key, before: before, at: moment)
        tellOwner(before: before, after: wanted.user, key, isNew: isNew)

        var ended: [InstallationKey] = []
        if app.devicePolicy == .single, let user = wanted.user { ended += supersede(othersOf: user, than: key) }
        let losers = take(wanted, for: key, isNew: isNew, at: moment)
        ended += losers.filter { installations[$0]?.owner.hasSameBytes(as: wanted.user) != true }
        if let before, !before.owner.hasSameBytes(as: wanted.user) { ended.append(key) }
        let fenced = fence(ended)
        remember(losers.filter { !fenced.contains($0) }, of: key)

        guard let record = record(key) else { throw CorruptRow(table: "installations") }
        return RegistryChange.Result(record: record, isNew: isNew, fenced: fenced)
    }

    // MARK: The installation itself (rules 1 and 4)

    private mutating func store(_ wanted: Target, _ key: InstallationKey, before: InstallationState?, at moment: Int64) {
        guard var row = before else {
            var row = InstallationState(
                key: key, owner: wanted.user, epoch: 1, profile: wanted.profile, createdAt: moment, registeredAt: moment, fence: .none,
                isStored: false)
            row.needs(.everything)
            installations[key] = row
            return
        }
        let reason = wanted.user == nil ? (row.owner == nil ? row.signedOutReason : .logout) : nil
        let isSame =
            row.isRegistered && row.owner.hasSameBytes(as: wanted.user) && row.profile == wanted.profile && row.staleSince == nil
            && row.signedOutReason == reason
        row.needs(isSame ? (wanted.stamps ? .refresh : .nothing) : .everything)
        if !row.isRegistered {
            row.createdAt = moment
            row.deregisteredAt = nil
        }
        row.signedOutReason = reason
        row.owner = wanted.user
        row.profile = wanted.profile
        if wanted.stamps {
            row.registeredAt = moment
            row.staleSince = nil
        }
        installations[key] = row
    }

    private mutating func tellOwner(before: InstallationState?, after user: String?, _ key: InstallationKey, isNew: Bool) {
        if isNew { tell(.registered, key) { $0.owner = user } }
        guard let before, !before.owner.hasSameBytes(as: user) else { return }
        if let previous = before.owner {
            tell(.signedOut, key) {
                $0.owner = previous
                $0.ownerEpoch = before.epoch
                $0.reason = user == nil ? SignOutReason.logout.rawValue : "another_user"
            }
        }
        if !isNew, let user { tell(.signedIn, key) { $0.owner = user } }
    }

    // MARK: Its tokens (rules 2, 3 and 6)

    /// - Returns: installations that lost a token to this one.
    private mutating func take(_ wanted: Target, for key: InstallationKey, isNew: Bool, at moment: Int64) -> [InstallationKey] {
        let named = wanted.tokens.map { proven($0, app: key.app) }
        var losers: [InstallationKey] = []
        if let replaces = wanted.replaces { losers += drop(replaces, keeping: named ?? [], for: key, at: moment) }
        guard let named else { return losers }
        for index in indices(of: key) where !tokens[index].isOver {
            let token = tokens[index]
            guard !named.contains(where: { $0.token == token.token && $0.isPlaced(as: token) }) else { continue }
            let isReplaced = named.contains { $0.purpose == token.purpose }
            tokens[index].retire(isReplaced ? .replaced : .removed, at: moment)
            tell(isReplaced ? .tokenReplaced : .tokenRemoved, key) { $0.token = token.historical }
        }
        for token in named {
            if let loser = bind(token, to: key, isNew: isNew, at: moment) { losers.append(loser) }
            if let loser = takeOver(token.inOtherEnvironment, for: key, at: moment) { losers.append(loser) }
        }
        return losers
    }

    /// A token is one device's, whatever environment somebody else stated for it: their row comes here too, retired. Otherwise a push for
    /// them, tried in the other environment because theirs was wrong, would reach this device.
    private mutating func takeOver(_ named: RegisteredToken, for key: InstallationKey, at moment: Int64) -> InstallationKey? {
        guard let index = index(of: named, app: key.app), tokens[index].installation != key.id else { return nil }
        let before = tokens[index]
        tokens[index].giveUp(to: key.id, at: moment)
        moved(index)
        tell(.tokenMovedAway, before.place.installation) {
            $0.token = before.historical
            $0.otherInstallation = key.id
        }
        return before.place.installation
    }

    /// What APNs has once accepted in one environment belongs there, whatever a client says (DESIGN.md section 6, APNS.md 4.2).
    private func proven(_ named: [RegisteredToken], app: App.ID) -> [RegisteredToken] {
        named.map { token in
            let other = token.inOtherEnvironment
            guard let index = index(of: other, app: app), tokens[index].isProven else { return token }
            if let stated = self.index(of: token, app: app), tokens[stated].isProven { return token }
            return named.contains { $0.isPlaced(as: other) } ? token : other
        }
    }

    /// Retires a token that the client says is over, wherever it is.
    private mutating func drop(
        _ replaces: DeviceToken, keeping named: [RegisteredToken], for key: InstallationKey, at moment: Int64
    ) -> [InstallationKey] {
        var losers: [InstallationKey] = []
        for index in tokens.indices where tokens[index].app == key.app && tokens[index].token == replaces {
            let token = tokens[index]
            guard !named.contains(where: { $0.token == token.token && $0.isPlaced(as: token) }) else { continue }
            if token.installation != key.id { losers.append(token.place.installation) }
            guard !token.isOver else { continue }
            tokens[index].retire(.replaced, at: moment)
            tell(.tokenReplaced, token.place.installation) { $0.token = token.historical }
        }
        return losers
    }

    /// - Returns: the installation it was taken from.
    private mutating func bind(
        _ named: RegisteredToken, to key: InstallationKey, isNew: Bool, at moment: Int64
    ) -> InstallationKey? {
        guard let index = index(of: named, app: key.app) else {
            let token = TokenState(id: nil, app: key.app, named: named, installation: key.id, registeredAt: moment)
            _ = add(token)
            tellAdded(token, key, isNew: isNew)
            return nil
        }
        let before = tokens[index]
        // Strictly later than before, as for the installation.
        tokens[index].bind(to: key.id, at: max(moment, before.registeredAt + 1))
        guard before.installation != key.id else {
            if before.retired != nil { tellAdded(before, key, isNew: isNew) }
            return nil
        }
        moved(index)
        tell(.tokenMovedHere, key) {
            $0.token = before.historical
            $0.otherInstallation = before.installation
        }
        tell(.tokenMovedAway, before.place.installation) {
            $0.token = before.historical
            $0.otherInstallation = key.id
        }
        return before.place.installation
    }

    /// Two installations of one owner: nothing that is queued for the first is wrong, until the second's owner changes.
    private mutating func remember(_ losers: [InstallationKey], of key: InstallationKey) {
        guard !losers.isEmpty else { return }
        predecessors[key, default: []].formUnion(losers.map(\.id))
        gainedPredecessors.insert(key)
    }
}

extension RegistryBatch {
    // MARK: Others (rule 5), and the fences

    private mutating func supersede(othersOf user: String, than key: InstallationKey) -> [InstallationKey] {
        let others = installations.values.filter { $0.key.app == key.app && $0.key != key && $0.owner.hasSameBytes(as: user) }
            .map(\.key).sorted()
        for other in others {
            let epoch = installations[other]?.epoch
            installations[other]?.owner = nil
            installations[other]?.signedOutReason = .superseded
            installations[other]?.needs(.everything)
            tell(.signedOut, other) {
                $0.owner = user
                $0.ownerEpoch = epoch
                $0.reason = SignOutReason.superseded.rawValue
                $0.otherInstallation = key.id
            }
        }
        return others
    }

    /// Ends the present epoch of these installations and of all whose tokens moved to them.
    private mutating func fence(_ ended: [InstallationKey]) -> Set<InstallationKey> {
        var waiting = ended
        var seen: Set<InstallationKey> = []
        while let key = waiting.popLast() {
            guard seen.insert(key).inserted, let row = installations[key] else { continue }
            // Nothing has moved to an installation that is not stored yet but within the batch.
            if let knownMoves, row.isStored, !knownMoves.contains(key) { unread.insert(key) }
            installations[key]?.epoch += 1
            installations[key]?.fence = .pending
            installations[key]?.needs(.everything)
            fenced.insert(key)
            let reached = predecessors.removeValue(forKey: key) ?? []
            waiting += reached.map { InstallationKey(app: key.app, id: $0) }
            // Nothing of its ended epochs is right any more, so no later fence needs to reach back to it.
            for successor in predecessors.keys where successor.app == key.app { predecessors[successor]?.remove(key.id) }
        }
        return seen
    }

    // MARK: History

    private mutating func tellAdded(_ token: TokenState, _ key: InstallationKey, isNew: Bool) {
        // The first token of a new installation stands in the line that tells of the installation: imports have one line each.
        if isNew, let last = history.indices.last, history[last].event == .registered, history[last].token == nil,
            history[last].installation == key.id
        {
            history[last].token = token.historical
        } else {
            tell(.tokenAdded, key) { $0.token = token.historical }
        }
    }

    private mutating func tell(_ event: HistoryEntry.Event, _ key: InstallationKey, _ fill: (inout HistoryEntry) -> Void = { _ in }) {
        var entry = HistoryEntry(app: key.app, installation: key.id, event: event, at: now)
        entry.ownerEpoch = present?.key == key ? present?.epoch : installations[key]?.epoch
        fill(&entry)
        history.append(entry)
    }
}

extension RegistryBatch.Target {
    init(_ patch: InstallationPatch, of row: InstallationState) {
        var profile = row.profile
        profile.locale = patch.locale.applied(to: profile.locale)
        profile.timeZone = patch.timeZone.applied(to: profile.timeZone)
        profile.appVersion = patch.appVersion.applied(to: profile.appVersion)
        profile.osVersion = patch.osVersion.applied(to: profile.osVersion)
        profile.deviceModel = patch.deviceModel.applied(to: profile.deviceModel)
        profile.tags = patch.tags ?? profile.tags
        self.init(
            user: patch.user.applied(to: row.owner), profile: profile, tokens: patch.tokens, replaces: patch.replaces, stamps: false)
    }
}

extension RegisteredToken {
    fileprivate var inOtherEnvironment: RegisteredToken {
        RegisteredToken(token: token, environment: environment == .production ? .sandbox : .production, purpose: purpose)
    }

    fileprivate func isPlaced(as other: RegisteredToken) -> Bool { environment == other.environment && purpose == other.purpose }
    fileprivate func isPlaced(as other: TokenState) -> Bool { environment == other.environment && purpose == other.purpose }
}
