import PushModel
import TokenServiceApps
import TokenServiceKit

/// Rules 5, 7 and 8, staleness and erasure: all ways in which a user's time at installations ends.
extension RegistryBatch {
    /// In ascending order.
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

    /// Refuses if another user than expected is signed in there. An installation without a user is as every sign-out wants it.
    private func check(_ expected: ExpectedOwner, at keys: [InstallationKey]) throws {
        for row in keys.compactMap({ installations[$0] }) where row.owner != nil && !expected.allowsPresent(row.owner, epoch: row.epoch) {
            throw OwnerMismatch()
        }
    }

    mutating func signOut(_ keys: [InstallationKey], expecting expected: ExpectedOwner) throws -> RegistryChange.Result {
        try check(expected, at: keys)
        let ended = keys.filter { installations[$0]?.owner != nil }
        for key in ended { end(key, .logout) }
        return RegistryChange.Result(installations: ended, fenced: fence(ended + unused(keys, by: expected)))
    }

    /// The installations without a user that a device signs out: their epoch ends too, or a sign-in by the same device that is still under
    /// way would be accepted after its sign-out. An installation that is not known yet becomes one that was deregistered.
    private mutating func unused(_ keys: [InstallationKey], by expected: ExpectedOwner) -> [InstallationKey] {
        guard case .device(_, let issued) = expected else { return [] }
        for key in keys where installations[key] == nil {
            var row = InstallationState(
                key: key, epoch: 1, profile: InstallationProfile(), createdAt: now, registeredAt: now, isStored: false)
            row.deregister(.deregistered, at: now)
            installations[key] = row
        }
        return keys.filter { key in installations[key].map { $0.isStored && $0.owner == nil && $0.epoch == issued } ?? false }
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

    mutating func deregister(_ keys: [InstallationKey], expecting expected: ExpectedOwner) throws -> RegistryChange.Result {
        try check(expected, at: keys)
        let unused = unused(keys.filter { installations[$0]?.isRegistered != true }, by: expected)
        var result = deregister(keys.filter { installations[$0]?.isRegistered == true }, .deregistered, tokens: .deregistered)
        result.fenced.formUnion(fence(unused))
        return result
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
