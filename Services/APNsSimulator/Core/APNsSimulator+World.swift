import Synchronization

/// The in-process equivalent of the HTTP control API. Tokens are hex, either case.
extension APNsSimulator {
    // MARK: Devices

    /// Installs an app on a device, or changes one; it also brings an uninstalled one back.
    /// - Parameters:
    ///   - topics: nil takes any topic.
    ///   - startTokens: By attributes type: they start Live Activities on this device.
    package func install(
        _ token: String, environment: SimulatorEnvironment = .production, topics: [String]? = nil, name: String? = nil,
        startTokens: [String: String] = [:], hasFrequentUpdates: Bool = false
    ) throws(SimulatorError) {
        var installation = TokenRecord.Installation(
            environment: environment, topics: topics?.map { Array($0.utf8) }, state: .installed, name: name)
        for (type, token) in startTokens { installation.startTokens.append((try Self.key(token), type)) }
        installation.hasFrequentUpdates = hasFrequentUpdates
        guard world.put(installation, for: try Self.key(token), now: configuration.clock()) != .taken else {
            throw SimulatorError(.token, "the token, or a start token, belongs to another device")
        }
    }

    /// From now on pushes to the token are answered 410 `Unregistered`.
    /// - Parameter since: The timestamp in the answer, UNIX milliseconds; nil is now.
    /// - Returns: false if no such device was ever installed.
    @discardableResult
    package func uninstall(_ token: String, since: Int64? = nil) throws(SimulatorError) -> Bool {
        try perform(.uninstall(since: since ?? configuration.clock(), pushesUntilGone: 0), on: token) == .done
    }

    /// Expires the token as ``uninstall(_:since:)`` does, and the reason is `ExpiredToken`: the token is over, not the app.
    @discardableResult
    package func expire(_ token: String, since: Int64? = nil) throws(SimulatorError) -> Bool {
        try perform(.expire(since: since ?? configuration.clock()), on: token) == .done
    }

    /// Forgets a device: its token is unknown again. A script stays.
    @discardableResult
    package func forget(_ token: String) throws(SimulatorError) -> Bool {
        world.remove(try Self.key(token), now: configuration.clock())
    }

    package func devices() -> [DeviceSummary] { world.devices() }

    package func device(_ token: String) throws(SimulatorError) -> DeviceSummary? {
        world.device(try Self.key(token))
    }

    // MARK: Scripts

    /// The results of the next faultless pushes to a token, installed or not. Replaces an earlier script.
    package func script(
        _ token: String, _ answers: [ScriptedAnswer], then ending: AnswerScript.Ending = .accept
    ) throws(SimulatorError) {
        world.setScript(AnswerScript(answers, then: ending), for: try Self.key(token))
    }

    package func removeScript(_ token: String) throws(SimulatorError) {
        world.setScript(nil, for: try Self.key(token))
    }

    // MARK: What arrived

    /// The notifications that the device shows, oldest first; empty for a device that was never installed.
    package func inbox(_ token: String) throws(SimulatorError) -> [InboxNotification] {
        world.inbox(of: try Self.key(token), now: configuration.clock()) ?? []
    }

    /// Suspends until the inbox holds `count` entries or `timeout` has passed, then reads it.
    package func inbox(
        _ token: String, reaching count: Int, timeout: Duration = .seconds(30)
    ) async throws(SimulatorError) -> [InboxNotification] {
        let key = try Self.key(token)
        _ = await world.wait(for: .inbox(key, count: count), timeout: timeout)
        return world.inbox(of: key, now: configuration.clock()) ?? []
    }

    /// The device's Live Activities listen to these channels and no others.
    /// - Throws: If the token is not hexadecimal.
    /// - Returns: The first channel that the device's environment does not have; nil if it has all.
    package func listen(_ token: String, to channels: [String]) throws(SimulatorError) -> String? {
        world.subscribe(try Self.key(token), to: channels, now: configuration.clock())
    }

    /// The requests after `sequence` that the journal still holds, oldest first.
    package func journal(after sequence: Int64 = 0, limit: Int = .max) -> [JournalEntry] {
        journalPage(after: sequence, limit: limit).entries
    }

    /// Reads a page of the journal, with the first and the last number that it holds at that moment.
    func journalPage(after sequence: Int64, limit: Int) -> (entries: [JournalEntry], first: Int64, last: Int64) {
        let (found, first, next) = world.state.withLock { state in
            (state.journal.records(after: sequence, limit: limit), state.journal.firstSequence, state.journal.nextSequence)
        }
        return (found.map { JournalEntry(sequence: $0.sequence, $0.record) }, first, next - 1)
    }

    /// Suspends until `total` requests have arrived since the start, then reads all that the journal holds.
    package func journal(reaching total: Int, timeout: Duration = .seconds(30)) async -> [JournalEntry] {
        _ = await world.wait(for: .requests(total: Int64(total)), timeout: timeout)
        return journal()
    }

    /// Numbers and counters go on; the entries are gone.
    package func clearJournal() {
        world.state.withLock { $0.journal.clear() }
    }

    package var counters: Counters {
        var counters = world.state.withLock { state in
            var counters = state.counters
            counters.journalOverwritten = state.journal.overwritten
            return counters
        }
        counters.journalFileLost = world.journalFile?.failure?.lostRecords ?? 0
        return counters
    }

    // MARK: Keys

    package func add(_ key: ProviderKey) { keyRing.add(key) }

    /// Tokens of this key are answered `InvalidProviderToken` from now on, on live connections too.
    package func revoke(keyID: String) { keyRing.revoke(keyID: keyID) }

    /// Sets the key's state, on live connections too.
    /// - Returns: false where there is no such key.
    package func set(_ state: ProviderKey.State, keyID: String) -> Bool { keyRing.set(state, keyID: keyID) }

    static func key(_ token: String) throws(SimulatorError) -> TokenKey {
        guard let key = TokenKey(hex: token) else {
            throw SimulatorError(.token, "a device token is an even number of hex digits, at most \(2 * TokenKey.maximumBytes)")
        }
        return key
    }
}
