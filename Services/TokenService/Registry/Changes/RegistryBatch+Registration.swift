import PushModel
import TokenServiceApps
import TokenServiceKit

/// Rules 1 to 6 (`docs/registration.md`).
extension RegistryBatch {
    /// The wanted state of one installation.
    struct Target {
        var user: String?
        var profile: InstallationProfile
        /// The backend's tags. Nil to leave them alone; then those of an imported installation for the same device come along.
        var tags: [String]?
        /// Nil: as it was.
        var isImported: Bool?
        /// Nil to leave them alone.
        var tokens: [RegisteredToken]?
        /// The activity whose token the list has; nil: the list has all tokens but those of activities that it does not name.
        var activity: String?
        /// Purposes whose tokens the list leaves alone if it names none.
        var keeps: Set<Purpose> = []
        var replaces: DeviceToken?
        /// The request has a device's own credential, so the token that it replaces may not be another user's: who names one proves
        /// nothing. An installation that loses its token to a new user gets it from the list, which needs the token that the device has.
        var replacesOwnOnly = false
        /// Whether the request comes from the device itself, so that its moment counts.
        var stamps: Bool
    }

    /// Rule 8, and the other reasons to refuse a registration or a patch.
    func target(of change: RegistryChange, app: App) throws -> (Target, InstallationKey) {
        switch change {
        case .register(let registration):
            let key = InstallationKey(app: app.id, id: registration.installation)
            let row = installations[key]
            let isRegistered = row?.isRegistered ?? false
            try checkCredential(of: registration.expectedOwner, in: app)
            try registration.expectedOwner.check(row?.owner, epoch: row?.epoch ?? 0, isRegistered: isRegistered)
            guard registration.precondition.allows(record(key)?.etag) else { throw PreconditionFailed() }
            let target = Target(
                user: registration.user, profile: registration.profile, tags: registration.tags,
                isImported: registration.isListed && (!isRegistered || row?.isImported == true), tokens: registration.tokens,
                keeps: registration.keeps, replaces: registration.replaces, replacesOwnOnly: registration.expectedOwner.credential != nil,
                stamps: true)
            return (target, key)
        case .patch(let patch):
            let key = InstallationKey(app: app.id, id: patch.installation)
            guard let row = installations[key], row.isRegistered else { throw NotRegistered() }
            try checkCredential(of: patch.expectedOwner, in: app)
            if case .untouched = patch.user {
                try patch.expectedOwner.checkPresent(row.owner, epoch: row.epoch)
            } else {
                try patch.expectedOwner.check(row.owner, epoch: row.epoch)
            }
            guard patch.precondition.allows(record(key)?.etag) else { throw PreconditionFailed() }
            return (Target(patch, of: row), key)
        case .report(let report):
            let key = InstallationKey(app: app.id, id: report.installation)
            guard let row = installations[key], row.isRegistered else { throw NotRegistered() }
            try checkCredential(of: report.expectedOwner, in: app)
            try report.expectedOwner.checkPresent(row.owner, epoch: row.epoch)
            let tokens = report.token.map { [$0] } ?? []
            return (Target(user: row.owner, profile: row.profile, tokens: tokens, activity: report.id, stamps: false), key)
        case .tag(let assignment):
            let key = InstallationKey(app: app.id, id: assignment.installation)
            guard let row = installations[key], row.isRegistered else { throw NotRegistered() }
            guard assignment.precondition.allows(record(key)?.etag) else { throw PreconditionFailed() }
            return (Target(user: row.owner, profile: row.profile, tags: assignment.tags, stamps: false), key)
        default: throw NotRegistered()
        }
    }

    mutating func reach(_ wanted: Target, _ key: InstallationKey, of app: App) throws -> RegistryChange.Result {
        let before = installations[key]
        let isNew = before?.isRegistered != true
        // A later registration must have a later moment, or a 410 stamped between the two would find no difference.
        let moment = max(now, (before?.registeredAt ?? 0) + 1)
        // From here on, history records events of this installation in the epoch that the change begins.
        let epoch = before.map { $0.owner.hasSameBytes(as: wanted.user) ? $0.epoch : $0.epoch + 1 } ?? 1
        present = (key, epoch)
        defer { present = nil }
        let lines = history.count
        store(wanted, key, before: before, at: moment)
        recordOwner(before: before, after: wanted.user, key, isNew: isNew)

        var ended: [InstallationKey] = []
        if app.devicePolicy == .single, let user = wanted.user { ended += supersede(othersOf: user, than: key) }
        let losers = take(wanted, for: key, isNew: isNew, at: moment)
        if wanted.tags == nil { bringTags(from: losers, to: key) }
        ended += losers.filter { installations[$0]?.owner.hasSameBytes(as: wanted.user) != true }
        if let before, !before.owner.hasSameBytes(as: wanted.user) { ended.append(key) }
        let fenced = fence(ended)
        remember(losers.filter { !fenced.contains($0) }, of: key)
        charge(key, lines: history.count - lines)

        guard let record = record(key) else { throw CorruptRow(table: "installations") }
        return RegistryChange.Result(record: record, isNew: isNew, fenced: fenced)
    }

    // MARK: The installation itself (rules 1 and 4)

    private mutating func store(_ wanted: Target, _ key: InstallationKey, before: InstallationState?, at moment: Int64) {
        guard var row = before else {
            var row = InstallationState(
                key: key, owner: wanted.user, epoch: 1, profile: wanted.profile, tags: wanted.tags ?? [],
                isImported: wanted.isImported ?? false, createdAt: moment, registeredAt: moment, fence: .none, isStored: false)
            row.needs(.everything)
            installations[key] = row
            return
        }
        let reason = wanted.user == nil ? (row.owner == nil ? row.signedOutReason : .logout) : nil
        let (tags, isImported) = (wanted.tags ?? row.tags, wanted.isImported ?? row.isImported)
        let isSame =
            row.isRegistered && row.owner.hasSameBytes(as: wanted.user) && row.profile == wanted.profile && row.staleSince == nil
            && row.signedOutReason == reason && row.tags.haveSameBytes(as: tags) && row.isImported == isImported
        row.needs(isSame ? (wanted.stamps ? .refresh : .nothing) : .everything)
        if !row.isRegistered {
            row.createdAt = moment
            row.deregisteredAt = nil
        }
        row.signedOutReason = reason
        row.owner = wanted.user
        row.profile = wanted.profile
        row.tags = tags
        row.isImported = isImported
        if wanted.stamps {
            row.registeredAt = moment
            row.staleSince = nil
        }
        installations[key] = row
    }

    /// An imported installation stands for a device that has not registered yet. When the device takes its token, under an id of its own,
    /// the backend's tags come along; not if the two name different users, nor while the imported one has another active token: then it
    /// stands for its device still, and what the other took was retired.
    private mutating func bringTags(from losers: [InstallationKey], to key: InstallationKey) {
        guard var row = installations[key] else { return }
        for loser in losers {
            guard var before = installations[loser], before.isImported, !before.tags.isEmpty,
                before.owner == nil || row.owner == nil || before.owner.hasSameBytes(as: row.owner), !hasActiveToken(loser)
            else { continue }
            let new = before.tags.filter { tag in !row.tags.contains { $0.hasSameBytes(as: tag) } }
            row.tags = Array((row.tags + new).prefix(InstallationTags.maximumCount))
            row.needs(.everything)
            before.tags = []
            before.needs(.everything)
            installations[loser] = before
        }
        installations[key] = row
    }

    private mutating func recordOwner(before: InstallationState?, after user: String?, _ key: InstallationKey, isNew: Bool) {
        if isNew { record(.registered, key) { $0.owner = user } }
        guard let before, !before.owner.hasSameBytes(as: user) else { return }
        if let previous = before.owner {
            record(.signedOut, key) {
                $0.owner = previous
                $0.ownerEpoch = before.epoch
                $0.reason = user == nil ? SignOutReason.logout.rawValue : "another_user"
            }
        }
        if !isNew, let user { record(.signedIn, key) { $0.owner = user } }
    }

    // MARK: Its tokens (rules 2, 3 and 6)

    /// - Returns: installations that lost a token to this one.
    private mutating func take(_ wanted: Target, for key: InstallationKey, isNew: Bool, at moment: Int64) -> [InstallationKey] {
        let named = wanted.tokens.map { proven($0, app: key.app) }
        var losers: [InstallationKey] = []
        if let replaces = wanted.replaces { losers += drop(replaces, of: wanted, keeping: named ?? [], for: key, at: moment) }
        guard let named else { return losers }
        for index in indices(of: key) where !tokens[index].isOver && wanted.covers(tokens[index].purpose) {
            let token = tokens[index]
            guard !named.contains(where: { $0.token == token.token && $0.isPlaced(as: token) }) else { continue }
            let isReplaced = named.contains { $0.purpose == token.purpose }
            tokens[index].retire(isReplaced ? .replaced : .removed, at: moment)
            record(isReplaced ? .tokenReplaced : .tokenRemoved, key) { $0.token = token.historical }
        }
        for token in named {
            if let loser = bind(token, to: key, isNew: isNew, at: moment) { losers.append(loser) }
            if let loser = takeOver(token.inOtherEnvironment, for: key, at: moment) { losers.append(loser) }
        }
        bound(key, keeping: named, at: moment)
        boundRows(ofValuesOf: named, app: key.app, at: moment)
        return losers
    }

    // MARK: Its bounds (rule 10)

    /// - Throws: ``TooManyChanges``
    func admitChange(of key: InstallationKey) throws {
        let ahead = linesAhead(of: key)
        guard ahead > InstallationBounds.hour else { return }
        throw TooManyChanges(retryAfterSeconds: Int((ahead - InstallationBounds.hour + 999) / 1000))
    }

    /// How long the lines that the installation has made still count, in milliseconds.
    private func linesAhead(of key: InstallationKey) -> Int64 {
        let ahead = (installations[key]?.linesCountUntil ?? now) - now
        return (0...bounds.farthest).contains(ahead) ? ahead : 0
    }

    private mutating func charge(_ key: InstallationKey, lines: Int) {
        guard lines > 0 else { return }
        let ahead = linesAhead(of: key) + Int64(lines) * bounds.lineTime
        installations[key]?.linesCountUntil = now + min(ahead, bounds.farthest)
        installations[key]?.needs(.everything)
    }

    /// Tokens of Live Activities give way first: a registration leaves them alone, also those of types that the app has no more.
    private func givesWay(_ index: Int, before other: Int) -> Bool {
        let (left, right) = (tokens[index], tokens[other])
        guard left.purpose.isOfActivity == right.purpose.isOfActivity else { return left.purpose.isOfActivity }
        return left.registeredAt < right.registeredAt
    }

    /// The newest tokens win.
    private mutating func bound(_ key: InstallationKey, keeping named: [RegisteredToken], at moment: Int64) {
        let own = indices(of: key)
        guard own.count > min(bounds.activeTokens, bounds.retiredTokens) else { return }
        let active = own.filter { tokens[$0].isActive }
        let unnamed = active.filter { !named.contains(tokens[$0].named) }
        for index in unnamed.sorted(by: { givesWay($0, before: $1) })
            .prefix(max(0, active.count - bounds.activeTokens))
        {
            let token = tokens[index]
            tokens[index].retire(.removed, at: moment)
            record(.tokenRemoved, key) { $0.token = token.historical }
        }
        let retired = own.filter { tokens[$0].retired != nil && !tokens[$0].isDeleted }
        for index in retired.sorted(by: { tokens[$0].retired?.at ?? 0 < tokens[$1].retired?.at ?? 0 })
            .prefix(max(0, retired.count - bounds.retiredTokens))
        {
            tokens[index].delete()
        }
    }

    /// The device that names a value has it, so the rows that give way may be those of other installations. Without this bound, each
    /// request that names the value would read and lock any number of rows.
    private mutating func boundRows(ofValuesOf named: [RegisteredToken], app: App.ID, at moment: Int64) {
        var bounded: Set<DeviceToken> = []
        for value in named.lazy.map(\.token) {
            let rows = indices(of: value, app: app)
            guard rows.count > bounds.rowsOfValue, bounded.insert(value).inserted else { continue }
            let present = rows.filter { !tokens[$0].isDeleted }
            let others = present.filter { !named.contains(tokens[$0].named) }
            for index in others.sorted(by: { isOlder($0, than: $1) }).prefix(max(0, present.count - bounds.rowsOfValue)) {
                let token = tokens[index]
                if token.isActive {
                    tokens[index].retire(.removed, at: moment)
                    record(.tokenRemoved, token.holder) { $0.token = token.historical }
                }
                tokens[index].delete()
            }
        }
    }

    /// Retired ones first, the oldest of each.
    private func isOlder(_ index: Int, than other: Int) -> Bool {
        let (left, right) = (tokens[index], tokens[other])
        guard left.isActive == right.isActive else { return right.isActive }
        return (left.retired?.at ?? left.registeredAt, index) < (right.retired?.at ?? right.registeredAt, other)
    }

    /// A token belongs to one device, even if another installation stated it for the other environment: that row comes here too, retired.
    /// Else a push to the other installation, tried in the other environment because the first was wrong, would reach this device.
    private mutating func takeOver(_ named: RegisteredToken, for key: InstallationKey, at moment: Int64) -> InstallationKey? {
        guard let index = index(of: named, app: key.app), tokens[index].installation != key.id else { return nil }
        let before = tokens[index]
        tokens[index].giveUp(to: key.id, at: moment)
        moved(index)
        record(.tokenMovedAway, before.holder) {
            $0.token = before.historical
            $0.otherInstallation = key.id
        }
        return before.holder
    }

    /// A token that APNs has once accepted in one environment belongs there, even if a client states the other (`docs/apns.md`).
    private func proven(_ named: [RegisteredToken], app: App.ID) -> [RegisteredToken] {
        named.map { token in
            let other = token.inOtherEnvironment
            guard let index = index(of: other, app: app), tokens[index].isProven else { return token }
            if let stated = self.index(of: token, app: app), tokens[stated].isProven { return token }
            return named.contains { $0.isPlaced(as: other) } ? token : other
        }
    }

    /// Retires a token that the client reports as ended, at any installation; for a device, at any of its user or of none.
    private mutating func drop(
        _ replaces: DeviceToken, of wanted: Target, keeping named: [RegisteredToken], for key: InstallationKey, at moment: Int64
    ) -> [InstallationKey] {
        var losers: [InstallationKey] = []
        for index in indices(of: replaces, app: key.app) {
            let token = tokens[index]
            guard !named.contains(where: { $0.token == token.token && $0.isPlaced(as: token) }) else { continue }
            if wanted.replacesOwnOnly, token.installation != key.id, let owner = installations[token.holder]?.owner,
                !Optional(owner).hasSameBytes(as: wanted.user)
            {
                continue
            }
            if token.installation != key.id { losers.append(token.holder) }
            guard !token.isOver else { continue }
            tokens[index].retire(.replaced, at: moment)
            record(.tokenReplaced, token.holder) { $0.token = token.historical }
        }
        return losers
    }

    /// - Returns: the installation it was taken from.
    private mutating func bind(
        _ named: RegisteredToken, to key: InstallationKey, isNew: Bool, at moment: Int64
    ) -> InstallationKey? {
        guard let index = index(of: named, app: key.app) else {
            let token = TokenState(
                id: nil, app: key.app, named: named, installation: key.id, registeredAt: moment,
                starts: .init(since: lastAnswer(to: named.purpose, of: key)))
            add(token)
            installations[key]?.gained(named.purpose)
            recordAdded(token, key, isNew: isNew)
            return nil
        }
        let before = tokens[index]
        if !before.isActive || before.installation != key.id { installations[key]?.gained(named.purpose) }
        // Strictly later than before, as for the installation.
        tokens[index].bind(to: key.id, at: max(moment, before.registeredAt + 1))
        guard before.installation != key.id else {
            if before.retired != nil { recordAdded(before, key, isNew: isNew) }
            return nil
        }
        moved(index)
        record(.tokenMovedHere, key) {
            $0.token = before.historical
            $0.otherInstallation = before.installation
        }
        record(.tokenMovedAway, before.holder) {
            $0.token = before.historical
            $0.otherInstallation = key.id
        }
        return before.holder
    }

    // MARK: Its start tokens (rule 11)

    /// The device reports a Live Activity. A report that names no type counts for all.
    mutating func answerStarts(of key: InstallationKey, type: String?) {
        for index in indices(of: key) where tokens[index].isActive {
            guard case .activityStart(let ofToken) = tokens[index].purpose, type.map({ ofToken.hasSameBytes(as: $0) }) ?? true else {
                continue
            }
            tokens[index].answerStarts(at: now)
        }
    }

    /// When the device last answered starts of the token's type, as its earlier tokens know it: a new one goes on from there.
    private func lastAnswer(to purpose: Purpose, of key: InstallationKey) -> Int64? {
        guard case .activityStart = purpose else { return nil }
        return indices(of: key).compactMap { tokens[$0].purpose == purpose ? tokens[$0].starts.since : nil }.max()
    }

    /// Two installations of one owner: pushes that are queued for the first stay right until the second's owner changes.
    private mutating func remember(_ losers: [InstallationKey], of key: InstallationKey) {
        guard !losers.isEmpty else { return }
        predecessors[key, default: []].formUnion(losers.map(\.id))
        gainedPredecessors.insert(key)
    }

    private mutating func recordAdded(_ token: TokenState, _ key: InstallationKey, isNew: Bool) {
        // The first token of a new installation stands in the entry of the installation: imports have one entry each.
        if isNew, let last = history.indices.last, history[last].event == .registered, history[last].token == nil,
            history[last].installation == key.id
        {
            history[last].token = token.historical
        } else {
            record(.tokenAdded, key) { $0.token = token.historical }
        }
    }
}

extension RegistryBatch.Target {
    /// Whether a token of this purpose is over if the list does not name it. A start token is over by a later one of the same purpose, and
    /// an update token also with its activity: iOS gives them later than the others, or not in this launch. So is a token that the device
    /// keeps.
    func covers(_ purpose: Purpose) -> Bool {
        if let activity { return purpose == .activity(id: activity) }
        return !purpose.isOfActivity && !keeps.contains(purpose) || tokens?.contains { $0.purpose == purpose } == true
    }

    init(_ patch: InstallationPatch, of row: InstallationState) {
        var profile = row.profile
        profile.locale = patch.locale.applied(to: profile.locale)
        profile.timeZone = patch.timeZone.applied(to: profile.timeZone)
        profile.appVersion = patch.appVersion.applied(to: profile.appVersion)
        profile.osVersion = patch.osVersion.applied(to: profile.osVersion)
        profile.deviceModel = patch.deviceModel.applied(to: profile.deviceModel)
        profile.permission = patch.permission.applied(to: profile.permission)
        profile.appTags = patch.appTags ?? profile.appTags
        self.init(
            user: patch.user.applied(to: row.owner), profile: profile, tokens: patch.tokens, keeps: patch.keeps, replaces: patch.replaces,
            replacesOwnOnly: patch.expectedOwner.credential != nil, stamps: false)
    }
}

extension RegisteredToken {
    fileprivate var inOtherEnvironment: RegisteredToken {
        RegisteredToken(token: token, environment: environment == .production ? .sandbox : .production, purpose: purpose)
    }

    fileprivate func isPlaced(as other: RegisteredToken) -> Bool { environment == other.environment && purpose == other.purpose }
    fileprivate func isPlaced(as other: TokenState) -> Bool { environment == other.environment && purpose == other.purpose }
}
