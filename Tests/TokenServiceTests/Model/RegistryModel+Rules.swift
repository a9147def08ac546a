extension RegistryModel {
    /// Does one operation, all of it at once.
    /// - Parameter tag: What the operation calls itself in an installation's profile.
    mutating func apply(_ operation: RegistryOperation, tag: String) -> RegistryAnswer {
        switch operation {
        case .register(let registration): register(registration, tag: tag)
        case .logOut(let installation, let expected): logOut(installation, expected: expected)
        case .logOutToken(let number): logOutToken(number)
        case .logOutUser(let user, let except): logOutUser(user, except: except)
        case .deregister(let installation): deregister(installation)
        case .send(let user): .sent(targets(of: user))
        case .outcome(let outcome): settle(outcome)
        }
    }

    private mutating func register(_ wanted: RegistryOperation.Registration, tag: String) -> RegistryAnswer {
        let before = installations[wanted.installation]
        guard wanted.expected.allows(before?.owner) else { return .refused }
        let lost = takeTokens(wanted)
        let superseded = policy == .single ? others(of: wanted.user, than: wanted.installation) : []
        for name in wanted.tokens {
            tokens[name.index] = Token(installation: wanted.installation, registeredAt: Self.thisRound, retired: nil)
        }
        installations[wanted.installation] = Installation(owner: wanted.user, epoch: before?.epoch ?? 1, isRegistered: true, locale: tag)
        signOut(superseded)
        var ended = superseded.union(lost.ofOthers)
        if let before, before.owner != wanted.user { ended.insert(wanted.installation) }
        // What is queued for an installation that lost a token to one of the same owner is right until that owner changes; where the
        // loser is fenced anyway, nothing is queued.
        let fenced = fence(ended)
        noteMoves(from: lost.ofSameOwner.subtracting(fenced), to: wanted.installation)
        return .registered(
            isNew: before?.isRegistered != true, epoch: epoch(of: wanted.installation), user: wanted.user,
            tokens: tokens(of: wanted.installation), fence: fenceState(of: wanted.installation, written: !ended.isEmpty))
    }

    /// Rules 2 and 3: retires what the registration replaces, and says whom it takes a token from.
    private mutating func takeTokens(_ wanted: RegistryOperation.Registration) -> (ofOthers: Set<Int>, ofSameOwner: Set<Int>) {
        var lost: (ofOthers: Set<Int>, ofSameOwner: Set<Int>) = ([], [])
        for index in tokens.indices {
            guard let token = tokens[index] else { continue }
            let name = TokenName(index: index)
            let isKept = wanted.tokens.contains(name)
            let isReplaced = wanted.replaces == name.number
            if token.installation != wanted.installation, isKept || isReplaced {
                if owner(of: token.installation) == wanted.user {
                    lost.ofSameOwner.insert(token.installation)
                } else {
                    lost.ofOthers.insert(token.installation)
                }
            }
            guard !isKept else { continue }
            if isReplaced {
                retire(index, "replaced")
            } else if token.installation == wanted.installation {
                retire(index, wanted.tokens.contains { $0.purpose == name.purpose } ? "replaced" : "removed")
            }
        }
        return lost
    }

    private mutating func logOut(_ installation: Int, expected: RegistryOperation.Expected) -> RegistryAnswer {
        if owner(of: installation) != nil, !expected.allows(owner(of: installation)) { return .refused }
        return signOutAnswering([installation])
    }

    private mutating func logOutToken(_ number: Int) -> RegistryAnswer {
        let holders = tokens.indices.filter { TokenName(index: $0).number == number }.compactMap { tokens[$0]?.installation }
        return signOutAnswering(Set(holders))
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

    private mutating func deregister(_ installation: Int) -> RegistryAnswer {
        guard isRegistered(installation) else { return .deregistered }
        for index in tokens.indices where tokens[index]?.installation == installation { retire(index, "deregistered") }
        installations[installation] = Installation(owner: nil, epoch: epoch(of: installation), isRegistered: false, locale: nil)
        fence([installation])
        return .deregistered
    }

    /// DESIGN.md section 6: a 410 retires what was registered at or before its moment, a rejection what was registered before the
    /// request left, and nothing else ever retires.
    private mutating func settle(_ outcome: RegistryOperation.Outcome) -> RegistryAnswer {
        guard let reason = outcome.retires, let token = tokens[outcome.token.index], token.retired == nil else { return .applied }
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
