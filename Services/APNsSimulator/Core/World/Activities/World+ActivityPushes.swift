/// Pushes to start and update tokens.
extension World.State {
    /// The answer by the state of the device, or of the token itself; nil if no device has it.
    mutating func answer(
        at index: Dictionary<TokenKey, TokenRecord>.Index, _ facts: PushFacts, _ origin: RequestOrigin, now: Int64
    ) -> Answer? {
        guard let purpose = records.values[index].purpose else {
            return records.values[index].installation?.answer(to: origin.environment, topic: facts.topic, now: now)
        }
        guard let token = purpose.device, let device = records.index(forKey: token) else {
            guard case .retired(let environment, let since) = purpose else { return nil }
            return environment == origin.environment ? Answer(.unregistered, timestamp: since) : Answer(.badDeviceToken)
        }
        return records.values[device].installation?.answer(to: purpose, facts.topic, origin.environment, now: now)
    }

    /// An accepted push reaches its device.
    mutating func receive(
        at index: Dictionary<TokenKey, TokenRecord>.Index, _ token: TokenKey, _ facts: PushFacts, id: MessageID, now: Int64
    ) -> Receipt? {
        guard let purpose = records.values[index].purpose else {
            let receipt = records.values[index].installation?.receive(facts, for: .device, id: id, rules: rules, now: now)
            if let receipt { note(receipt, token, facts, id: id, now: now) }
            return receipt
        }
        guard let device = purpose.device, let target = PushTarget(purpose),
            let receipt = records[device]?.installation?.receive(facts, for: target, id: id, rules: rules, now: now)
        else { return nil }
        note(receipt, device, facts, id: id, now: now)
        return receipt
    }

    private mutating func note(_ receipt: Receipt, _ device: TokenKey, _ facts: PushFacts, id: MessageID, now: Int64) {
        arrivals.append(Arrival(receipt, token: device, facts, id: id, now: now))
        if receipt.activity != nil { followUp(device, now: now) }
    }
}

extension TokenRecord.Installation {
    /// The answer to a push to a start or update token of this device.
    fileprivate mutating func answer(
        to purpose: ActivityToken, _ topic: [UInt8], _ environment: SimulatorEnvironment, now: Int64
    ) -> Answer {
        guard environment == self.environment else { return Answer(.badDeviceToken) }
        if case .uninstalled(let since) = state { return Answer(.unregistered, timestamp: since) }
        guard takesActivities(of: topic) else { return Answer(.deviceTokenNotForTopic) }
        if case .update(_, let id) = purpose, let own = activities[id]?.topic, !own.isEmpty, own != topic {
            return Answer(.deviceTokenNotForTopic)
        }
        return throttle?.admits(now) ?? true ? .accepted : Answer(.tooManyRequests)
    }
}
