import PushModel

extension RegistryModel {
    /// Does one operation, all of it at once.
    /// - Parameter tag: What the operation calls itself in an installation's profile.
    mutating func apply(_ operation: RegistryOperation, tag: String) -> RegistryAnswer {
        switch operation {
        case .register(let registration): register(registration, tag: tag)
        case .change(let change): self.change(change, tag: tag)
        case .logOut(let installation, let expected): logOut(installation, expected: expected)
        case .logOutToken(let number): logOutToken(number)
        case .logOutUser(let user, let except): logOutUser(user, except: except)
        case .deregister(let installation): deregister([installation])
        case .deregisterToken(let number): deregister(Set(holders(of: number) { $0.retired == nil }))
        case .send(let user): .sent(targets(of: user))
        case .outcome(let outcome): settle(outcome)
        case .erase, .restore: preconditionFailure("neither is one moment")
        }
    }

    private mutating func register(_ wanted: RegistryOperation.Registration, tag: String) -> RegistryAnswer {
        guard wanted.expected.allows(owner(of: wanted.installation)) else { return .refused }
        return reach(wanted.installation, user: wanted.user, tokens: wanted.tokens, replaces: wanted.replaces, tag: tag)
    }

    private mutating func change(_ wanted: RegistryOperation.Change, tag: String) -> RegistryAnswer {
        guard isRegistered(wanted.installation) else { return .missing }
        let owner = owner(of: wanted.installation)
        guard wanted.expected.allows(owner) else { return .refused }
        return reach(wanted.installation, user: wanted.user ?? owner, tokens: wanted.tokens, replaces: wanted.replaces, tag: tag)
    }

    /// The state that an installation is to have, rules 1 to 6.
    /// - Parameter named: Nil leaves its tokens alone.
    private mutating func reach(
        _ installation: Int, user: Int?, tokens stated: [TokenName]?, replaces: Int?, tag: String
    ) -> RegistryAnswer {
        let before = installations[installation]
        let named = stated.map { stated in stated.map { proven($0, among: stated) } }
        let lost = takeTokens(named, replaces: replaces, for: installation, user: user)
        let superseded = policy == .single ? others(of: user, than: installation) : []
        for name in named ?? [] {
            tokens[name.index] = Token(
                installation: installation, registeredAt: Self.thisRound, retired: nil, isProven: tokens[name.index]?.isProven == true,
                row: tokens[name.index]?.row ?? 0)
        }
        if let user, before?.owner != user { name(user, at: installation) }
        installations[installation] = Installation(owner: user, epoch: before?.epoch ?? 1, isRegistered: true, locale: tag)
        signOut(superseded)
        var ended = superseded.union(lost.ofOthers)
        if let before, before.owner != user { ended.insert(installation) }
        // What is queued for an installation that lost a token to one of the same owner is right until that owner changes; where the
        // loser is fenced anyway, nothing is queued.
        let fenced = fence(ended)
        noteMoves(from: lost.ofSameOwner.subtracting(fenced), to: installation)
        return .registered(
            isNew: before?.isRegistered != true, epoch: epoch(of: installation), user: user, tokens: tokens(of: installation),
            fence: fenceState(of: installation, written: !ended.isEmpty))
    }

    /// Where APNs has accepted a token is where it belongs, whatever the client states; unless it states another one for that place.
    private func proven(_ name: TokenName, among stated: [TokenName]) -> TokenName {
        guard let other = name.elsewhere, tokens[other.index]?.isProven == true, tokens[name.index]?.isProven != true else { return name }
        return stated.contains { $0.place == other.place } ? name : other
    }

    /// Rules 2 and 3: retires what is replaced, and says whom a token is taken from.
    private mutating func takeTokens(
        _ named: [TokenName]?, replaces: Int?, for installation: Int, user: Int?
    ) -> (ofOthers: Set<Int>, ofSameOwner: Set<Int>) {
        var lost: (ofOthers: Set<Int>, ofSameOwner: Set<Int>) = ([], [])
        for index in tokens.indices {
            guard let token = tokens[index] else { continue }
            let name = TokenName(index: index)
            let isKept = named?.contains(name) == true
            let isReplaced = replaces == name.number
            // The device's token in the environment that another device stated for it.
            let isTakenOver = !isKept && token.installation != installation && name.elsewhere.map { named?.contains($0) == true } == true
            if token.installation != installation, isKept || isReplaced || isTakenOver {
                if owner(of: token.installation) == user {
                    lost.ofSameOwner.insert(token.installation)
                } else {
                    lost.ofOthers.insert(token.installation)
                }
            }
            guard !isKept else { continue }
            if isTakenOver {
                retireForGood(index, "replaced")
                tokens[index]?.installation = installation
            } else if isReplaced {
                retireForGood(index, "replaced")
            } else if let named, token.installation == installation {
                retireForGood(index, named.contains { $0.purpose == name.purpose } ? "replaced" : "removed")
            }
        }
        return lost
    }

    private mutating func logOut(_ installation: Int, expected: RegistryOperation.Expected) -> RegistryAnswer {
        if owner(of: installation) != nil, !expected.allows(owner(of: installation)) { return .refused }
        return signOutAnswering([installation])
    }

    private mutating func logOutToken(_ number: Int) -> RegistryAnswer {
        signOutAnswering(Set(holders(of: number) { _ in true }))
    }

    private func holders(of number: Int, where isMeant: (Token) -> Bool) -> [Int] {
        tokens.indices.filter { TokenName(index: $0).number == number }.compactMap { tokens[$0] }.filter(isMeant).map(\.installation)
    }

    private mutating func signOutAnswering(_ wanted: Set<Int>) -> RegistryAnswer {
        let signedIn = wanted.filter { owner(of: $0) != nil }
        let shown = signedIn.min() ?? wanted.min()
        signOut(signedIn)
        fence(signedIn)
        return .signedOut(
            installation: shown, didSignOut: !signedIn.isEmpty, epoch: shown.map { epoch(of: $0) } ?? 0,
            fence: shown.map { fenceState(of: $0, written: !signedIn.isEmpty) } ?? .unknown)
    }

    private mutating func logOutUser(_ user: Int, except: Int?) -> RegistryAnswer {
        var signedIn = others(of: user, than: -1)
        if let except { signedIn.remove(except) }
        signOut(signedIn)
        fence(signedIn)
        return .signedOutEverywhere(count: signedIn.count, fence: signedIn.isEmpty ? .unknown : .effective)
    }

    private mutating func deregister(_ wanted: Set<Int>) -> RegistryAnswer {
        let registered = wanted.filter { isRegistered($0) }
        for installation in registered {
            for index in tokens.indices where tokens[index]?.installation == installation { retire(index, "deregistered") }
            installations[installation] = Installation(owner: nil, epoch: epoch(of: installation), isRegistered: false, locale: nil)
        }
        fence(registered)
        return .deregistered
    }

    /// A 410 retires what was registered at or before its moment, a rejection what was registered before the
    /// request left, and nothing else ever retires. Under the brake a rejection retires nothing, and those that did are doubted.
    private mutating func settle(_ outcome: RegistryOperation.Outcome) -> RegistryAnswer {
        if isBraked, outcome.outcome == .tokenRejected {
            for index in tokens.indices where tokens[index]?.retired == "rejected" { tokens[index]?.isQuarantined = true }
            return .applied
        }
        guard let token = tokens[outcome.token.index], token.row == outcome.delivery.row else { return .applied }
        if outcome.outcome == .accepted { tokens[outcome.token.index]?.isProven = true }
        guard let reason = outcome.retires, token.retired == nil else { return .applied }
        if token.registeredAt <= outcome.since.moment { retire(outcome.token.index, reason) }
        return .applied
    }

    // MARK: Reading

    private func others(of user: Int?, than installation: Int) -> Set<Int> {
        guard let user else { return [] }
        return Set(installations.indices.filter { $0 != installation && owner(of: $0) == user })
    }

    /// What a notification to a user reaches.
    private func targets(of user: Int) -> Set<RegistryAnswer.Delivery> {
        var targets: Set<RegistryAnswer.Delivery> = []
        for index in tokens.indices {
            let name = TokenName(index: index)
            guard let token = tokens[index], token.retired == nil, name.purpose == "alert", owner(of: token.installation) == user else {
                continue
            }
            targets.insert(.init(token: name, installation: token.installation, epoch: epoch(of: token.installation)))
        }
        return targets
    }

    func tokens(of installation: Int) -> Set<RegistryAnswer.TokenState> {
        var states: Set<RegistryAnswer.TokenState> = []
        for index in tokens.indices {
            guard let token = tokens[index], token.installation == installation else { continue }
            states.insert(.init(name: TokenName(index: index), retired: token.retired))
        }
        return states
    }

    /// What a call wrote itself stands on the control stream before it is answered.
    private func fenceState(of installation: Int, written: Bool) -> RegistryAnswer.Fence {
        if written { return .effective }
        guard isRegistered(installation) else { return .unknown }
        return epoch(of: installation) > 1 ? .earlier : .none
    }
}
