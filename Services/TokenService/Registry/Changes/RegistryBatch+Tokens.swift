import PushModel

/// Changes of single tokens by APNs, the brake or an operator. A token that is no longer stored changes nothing.
extension RegistryBatch {
    /// - Returns: how many tokens the changes altered.
    package mutating func apply(toTokens changes: [RegistryChange]) -> Int { changes.reduce(0) { $0 + apply(toToken: $1).tokens } }

    mutating func apply(toToken change: RegistryChange) -> RegistryChange.Result {
        let isChanged =
            switch change {
            case .retire(let token, let reason, let moment, let environment, let answer):
                retire(token, reason, registeredUntil: moment, in: environment, answer)
            case .retireActivity(let token, let moment): retireActivity(token, registeredUntil: moment)
            case .countStart(let token, let sentAt): countStart(token, sentAt: sentAt)
            case .prove(let token, let environment): prove(token, in: environment)
            case .correct(let token, let environment, let answer): correct(token, to: environment, answer)
            case .quarantine(let token): quarantine(token)
            case .restore(let token): restore(token)
            default: false
            }
        return RegistryChange.Result(tokens: isChanged ? 1 : 0)
    }

    private mutating func retire(
        _ id: Int64, _ reason: TokenState.RetiredReason, registeredUntil moment: Int64, in environment: APNsEnvironment?,
        _ answer: OutcomeEvent.Delivery
    ) -> Bool {
        guard let index = index(ofToken: id), tokens[index].isActive, tokens[index].environment == environment ?? tokens[index].environment
        else { return false }
        guard tokens[index].registeredAt <= min(moment, now) else {
            // APNs knew it before the registration, and says it again after it.
            if reason == .gone, let sentAt = answer.sentAt { tokens[index].noteEnd(saidAt: min(sentAt, now)) }
            return false
        }
        tokens[index].end(reason, saidAt: min(moment, now), at: now)
        let token = tokens[index]
        record(.tokenRetired, token.holder) {
            $0.token = token.historical
            $0.note(answer)
            $0.reason = answer.reason
            $0.apnsTimestamp = answer.timestamp.flatMap { Self.storableMoments.contains($0) ? $0 : nil }
        }
        return true
    }

    private mutating func retireActivity(_ id: Int64, registeredUntil moment: Int64) -> Bool {
        guard let index = index(ofToken: id), tokens[index].isActive, tokens[index].registeredAt <= moment,
            case .activity = tokens[index].purpose
        else { return false }
        tokens[index].retire(.removed, at: now)
        let token = tokens[index]
        record(.tokenRemoved, token.holder) { $0.token = token.historical }
        return true
    }

    /// A start that was sent before the last registration of the token does not count.
    /// - Returns: whether the token is doubtful from now on.
    private mutating func countStart(_ id: Int64, sentAt: Int64) -> Bool {
        // A dispatcher's clock may be ahead.
        let moment = min(sentAt, now)
        guard let index = index(ofToken: id), tokens[index].isActive, tokens[index].registeredAt <= moment,
            case .activityStart = tokens[index].purpose, tokens[index].countStart(sentAt: moment)
        else { return false }
        let token = tokens[index]
        record(.tokenDoubtful, token.holder) { $0.token = token.historical }
        return true
    }

    /// A moment that PostgreSQL cannot store must not keep the other changes from being written. The end is that of the year 9999.
    private static let storableMoments: ClosedRange<Int64> = 0...253_402_300_799_999

    private mutating func prove(_ id: Int64, in environment: APNsEnvironment) -> Bool {
        guard let index = index(ofToken: id), tokens[index].environment == environment, !tokens[index].isProven else { return false }
        tokens[index].prove(in: environment, at: now)
        return true
    }

    /// The token moves to the environment in which APNs accepted it. If the token has a row there already, that row becomes active if it is
    /// this installation's, and this one yields. It yields too if another token is active in that place.
    private mutating func correct(_ id: Int64, to environment: APNsEnvironment, _ answer: OutcomeEvent.Delivery) -> Bool {
        guard let index = index(ofToken: id) else { return false }
        let token = tokens[index]
        guard token.environment != environment, !token.isProven, token.installation == answer.installation else { return false }
        let place = TokenPlace(installation: token.holder, environment: environment, purpose: token.purpose)
        let isTaken = tokens.contains { $0.isActive && $0.place == place }
        let rival = self.index(of: RegisteredToken(token: token.token, environment: environment, purpose: token.purpose), app: token.app)
        var revives = false
        if let rival {
            tokens[rival].prove(in: environment, at: now)
            revives = token.isActive && !tokens[rival].isActive && tokens[rival].installation == token.installation && !isTaken
            if revives {
                tokens[rival].inherit(registeredAt: token.registeredAt)
                tokens[rival].revive()
            }
        }
        if rival == nil, !(token.isActive && isTaken) {
            tokens[index].prove(in: environment, at: now)
            moved(index)
        } else {
            guard token.isActive else { return false }
            tokens[index].retire(.replaced, at: now)
        }
        let hasMoved = rival == nil && tokens[index].environment == environment
        let recorded = rival.map { tokens[$0].id } ?? id
        record(hasMoved || revives ? .environmentCorrected : .tokenReplaced, token.holder) {
            $0.token = token.historical
            $0.token?.id = recorded
            $0.token?.environment = environment.rawValue
            $0.note(answer)
            $0.reason = "was_\(token.environment.rawValue)"
        }
        return true
    }

    private mutating func quarantine(_ id: Int64) -> Bool {
        guard let index = index(ofToken: id), tokens[index].retired?.reason == .rejected, tokens[index].quarantinedAt == nil else {
            return false
        }
        tokens[index].quarantine(at: now)
        let token = tokens[index]
        record(.tokenQuarantined, token.holder) { $0.token = token.historical }
        return true
    }

    /// The token stays retired if there is a newer one: another token is active in its place or was put into quarantine from it later, the
    /// same token is active in another environment, the installation has as many such tokens as it may have, or it was deregistered. If
    /// both environments' rows of a token come out of quarantine together, both are active again.
    /// - Returns: whether it is active again.
    private mutating func restore(_ id: Int64) -> Bool {
        guard let index = index(ofToken: id), tokens[index].quarantinedAt != nil else { return false }
        let token = tokens[index]
        func comesFirst(_ other: TokenState) -> Bool {
            other.isActive || other.quarantinedAt != nil && (other.registeredAt, other.id ?? .max) > (token.registeredAt, id)
        }
        let isSuperseded = tokens.contains { other in
            guard other.id != token.id, other.app == token.app, other.purpose == token.purpose else { return false }
            return other.place == token.place && comesFirst(other)
                || other.token == token.token && other.isActive && other.storedPlace != nil
        }
        let taken = Set(indices(of: token.holder).filter { comesFirst(tokens[$0]) }.map { tokens[$0].place })
        guard !isSuperseded, taken.count < bounds.activeTokens, installations[token.holder]?.isRegistered == true else {
            tokens[index].leaveQuarantine()
            return false
        }
        tokens[index].revive()
        record(.tokenRestored, token.holder) { $0.token = token.historical }
        return true
    }
}

extension HistoryEntry {
    fileprivate mutating func note(_ answer: OutcomeEvent.Delivery) {
        status = answer.status.map { Int32(clamping: $0) }
        delivery = answer.id
    }
}
