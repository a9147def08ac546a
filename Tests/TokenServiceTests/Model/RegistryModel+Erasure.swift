/// The two operations that are no single moment: what they do, part by part, each of which is one. Where the contract leaves open what
/// becomes of something that races with the call, a part has more than one result.
extension RegistryModel {
    /// How far such an operation is.
    struct Underway: Hashable, Sendable {
        /// Installations that the user was seen to have left.
        var left: [Int] = []
        var installations = 0
        var tokens = 0
        var restored = 0
        var superseded = 0
    }

    // MARK: Erasing a user

    /// A walk over three installations takes three pages at most, where others come behind it meanwhile.
    static let endingParts = 3

    /// Ends what the user is signed in to. The first page takes all; what comes since survives, unless a later page still meets it.
    func endingOwned(by user: Int, step: Int, isFirst: Bool) -> [RegistryModel] {
        let owned = installations.indices.filter { owner(of: $0) == user }
        if isFirst {
            var all = self
            all.underway[step] = Underway()
            return [all.emptying(owned, of: user, step: step)]
        }
        return Self.subsets(owned).map { emptying($0, of: user, step: step) }
    }

    /// Looks for what the user was the last to be signed in to.
    /// - Parameter isLast: Of so many pages of the history; an earlier one may not name all.
    func lookingForLeft(by user: Int, step: Int, isLast: Bool) -> [RegistryModel] {
        let found = installations.indices.filter { wasLeft($0, by: user) }
        let certain = isLast ? found.filter { named[$0].last == Named(user: user) } : []
        return Self.subsets(found.filter { !certain.contains($0) }).map { others in
            var model = self
            model.underway[step]?.left = (certain + others).sorted()
            return model
        }
    }

    func endingLeft(by user: Int, step: Int) -> [RegistryModel] {
        [emptying((underway[step]?.left ?? []).filter { wasLeft($0, by: user) }, of: user, step: step)]
    }

    private func wasLeft(_ installation: Int, by user: Int) -> Bool {
        guard let row = installations[installation], row.owner == nil, !row.isShell else { return false }
        // What fades may be gone already.
        let last = named[installation].lastIndex { !$0.isFading } ?? 0
        return named[installation][last...].contains { $0.user == user }
    }

    private func emptying(_ wanted: [Int], of user: Int, step: Int) -> RegistryModel {
        var model = self
        for installation in wanted {
            for index in tokens.indices where tokens[index]?.installation == installation {
                model.tokens[index] = nil
                model.underway[step]?.tokens += 1
            }
            model.installations[installation] = Installation(
                owner: nil, epoch: epoch(of: installation), isRegistered: false, locale: nil, isShell: true)
            for index in named[installation].indices where named[installation][index].user == user {
                model.named[installation][index].isFading = true
            }
            model.underway[step]?.installations += 1
        }
        model.fence(Set(wanted))
        return model
    }

    private static func subsets(_ elements: [Int]) -> [[Int]] {
        elements.reduce([[]]) { found, element in found + found.map { $0 + [element] } }
    }

    // MARK: Restoring from quarantine

    /// What is put into quarantine while a call works is met by its next transaction.
    static let restoringParts = 2

    /// Brings back what nothing newer is in the place of.
    func restoring(_ wanted: Int?, step: Int, isFirst: Bool) -> RegistryModel {
        var model = self
        if isFirst { model.underway[step] = Underway() }
        for index in tokens.indices {
            guard let token = tokens[index], token.isQuarantined, wanted == nil || token.installation == wanted else { continue }
            model.tokens[index]?.isQuarantined = false
            if mayLive(index, token) {
                model.tokens[index]?.retired = nil
                model.underway[step]?.restored += 1
            } else {
                model.underway[step]?.superseded += 1
            }
        }
        return model
    }

    private func mayLive(_ index: Int, _ token: Token) -> Bool {
        let name = TokenName(index: index)
        let isReplaced = tokens.indices.contains { other in
            guard other != index, let rival = tokens[other], rival.installation == token.installation,
                TokenName(index: other).place == name.place
            else { return false }
            return rival.retired == nil || rival.isQuarantined && rival.registeredAt > token.registeredAt
        }
        let isAliveElsewhere = name.elsewhere.flatMap { tokens[$0.index] }.map { $0.retired == nil } ?? false
        return !isReplaced && !isAliveElsewhere && isRegistered(token.installation)
    }
}
