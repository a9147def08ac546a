import FoundationEssentials

/// The Live Activities of a device, the oldest first, also those that have left the lock screen.
struct Activities {
    /// The most activities, to bound the simulator's memory: another one takes the place of one that was dismissed, or of the oldest.
    private static let maximum = 100
    /// Random bytes of an update token: more than a device token has.
    private static let tokenBytes = 80

    private(set) var all: [Activity] = []
    /// How often one of them began, changed or was dismissed.
    private(set) var changes: Int64 = 0
    /// Every token of the device beside its own, with those that are over. The world's records say what each is.
    var tokens: [TokenKey] = []
    /// Changes of tokens that the world's records do not have yet.
    private var issued: [(token: TokenKey, activityID: String)] = []
    private var givenUp: [TokenKey] = []

    subscript(_ id: String) -> Activity? { all.first { $0.id == id } }

    /// An activity is followed as long as it goes on.
    func follows(_ channelID: String, now: Int64) -> Bool {
        all.contains { $0.source == .channel(channelID) && !$0.isOver(now: now) }
    }

    func channels(now: Int64) -> Set<String> {
        Set(
            all.compactMap { activity in
                if case .channel(let id) = activity.source, !activity.isOver(now: now) { id } else { nil }
            })
    }

    /// The activities that a broadcast reaches.
    func following(_ channelID: String) -> [String] {
        all.filter { $0.source == .channel(channelID) }.map(\.id)
    }

    // MARK: Changes

    /// An id that no activity on the lock screen has: the wanted one, or with a number behind it.
    func freeID(_ wanted: String?, now: Int64) -> String {
        guard let wanted else { return UUID().uuidString.lowercased() }
        let taken = Set(all.filter { $0.state(now: now) != .dismissed }.map(\.id))
        guard taken.contains(wanted) else { return wanted }
        for number in 2... where !taken.contains("\(wanted)-\(number)") { return "\(wanted)-\(number)" }
        return wanted
    }

    mutating func begin(_ activity: Activity, now: Int64) {
        changes += 1
        drop { $0.id == activity.id }
        if all.count >= Self.maximum {
            let leaving = all.first { $0.state(now: now) == .dismissed } ?? all[0]
            drop { $0.id == leaving.id }
        }
        all.append(activity)
        if case .token(let token) = activity.source { issued.append((token, activity.id)) }
    }

    /// Drops activities: their update tokens are over from now on.
    mutating func drop(where isMeant: (Activity) -> Bool) {
        for activity in all where isMeant(activity) {
            if case .token(let token) = activity.source { givenUp.append(token) }
        }
        all.removeAll(where: isMeant)
    }

    /// - Returns: nil if there is no such activity.
    mutating func change<Result>(_ id: String, _ body: (inout Activity) -> Result) -> Result? {
        guard let index = all.firstIndex(where: { $0.id == id }) else { return nil }
        changes += 1
        return body(&all[index])
    }

    mutating func take(_ state: ActivityState, of push: Inbox.Entry, for id: String, limit: Int64?, now: Int64) -> ActivityResult {
        guard let index = all.firstIndex(where: { $0.id == id }) else { return .afterEnd }
        let result = all[index].take(state, of: push, limit: limit, now: now)
        if result == .updated || result == .ended { changes += 1 }
        return result
    }

    /// The system gives an activity another update token.
    /// - Returns: false if it has none, or is over.
    mutating func rotate(_ id: String, to token: TokenKey, now: Int64) -> Bool {
        guard let activity = self[id], !activity.isOver(now: now), case .token(let old) = activity.source else { return false }
        givenUp.append(old)
        issued.append((token, id))
        return change(id) { $0.source = .token(token) } != nil
    }

    /// The app is gone, and its activities with it. Waiting callers see one more change.
    mutating func clear() {
        let (changes, tokens) = (changes, tokens)
        self = Activities()
        self.changes = changes + 1
        self.tokens = tokens
    }

    mutating func takeTokenChanges() -> (issued: [(token: TokenKey, activityID: String)], givenUp: [TokenKey]) {
        defer { (issued, givenUp) = ([], []) }
        return (issued, givenUp)
    }

    static func newToken() -> TokenKey? { TokenKey.random(bytes: tokenBytes) }
}
