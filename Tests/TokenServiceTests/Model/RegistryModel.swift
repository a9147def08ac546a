/// What the registry of one app should look like: `docs/registration.md` without concurrency, broker or database.
///
/// Small on purpose: a few installations, users and tokens, named by number, so that everything races for the same things.
struct RegistryModel: Hashable, Sendable {
    static let installationCount = 3
    static let users = ["ada", "grace", "eve"]
    /// The moment of every registration of the round that is being checked: later than all before it.
    static let thisRound = Int64.max - 1

    enum Policy: String, Sendable { case multi, single }

    struct Installation: Hashable, Sendable {
        var owner: Int?
        var epoch: Int64 = 1
        /// False once it was deregistered: only its epoch lives on.
        var isRegistered = true
        /// Which operation stated its profile last.
        var locale: String?
        /// Erased, and not registered since.
        var isShell = false
    }

    struct Token: Hashable, Sendable {
        var installation: Int
        /// UNIX milliseconds, or ``thisRound``.
        var registeredAt: Int64
        /// Nil while it is active.
        var retired: String?
        /// APNs has accepted it in this environment.
        var isProven = false
        /// Rejected, and may be restored.
        var isQuarantined = false
        /// The number of its row, or 0 where this round made it: outcomes speak of rows.
        var row: Int64 = 0
    }

    /// A user whom an installation's history names. No API shows it; the last one decides whose an installation is that no user is signed
    /// in to.
    struct Named: Hashable, Sendable {
        var user: Int
        /// Since this round: an erasure that is under way may have begun before.
        var isRecent = false
        /// Erased in this round: the history may name it until the round is over.
        var isFading = false
    }

    let policy: Policy
    /// Whether the app's brake is engaged during the present round.
    var isBraked = false
    var installations = [Installation?](repeating: nil, count: installationCount)
    /// By ``TokenName/index``.
    var tokens = [Token?](repeating: nil, count: TokenName.count)
    /// By successor, the installations of its owner that lost a token to it: one bit each. No API shows it; later epochs do.
    private var moves = [UInt8](repeating: 0, count: installationCount)
    /// In the order in which the history last names them.
    var named = [[Named]](repeating: [], count: installationCount)
    /// What the operations that are no single moment have done so far, by their place in the round.
    var underway: [Int: Underway] = [:]

    init(policy: Policy) { self.policy = policy }

    func owner(of installation: Int) -> Int? { installations[installation]?.owner }
    func epoch(of installation: Int) -> Int64 { installations[installation]?.epoch ?? 0 }
    func isRegistered(_ installation: Int) -> Bool { installations[installation]?.isRegistered == true }

    // MARK: What several rules share

    mutating func retire(_ token: Int, _ reason: String) {
        if tokens[token]?.retired == nil { tokens[token]?.retired = reason }
    }

    /// A rejection may prove unjust, and then what the client has said since is what counts.
    mutating func retireForGood(_ token: Int, _ reason: String) {
        guard tokens[token]?.retired == "rejected" else { return retire(token, reason) }
        tokens[token]?.retired = reason
        tokens[token]?.isQuarantined = false
    }

    /// Ends the epoch of these, and of all whose tokens moved to them while the owner was the same.
    /// - Returns: all whose epoch ended.
    @discardableResult
    mutating func fence(_ ended: Set<Int>) -> Set<Int> {
        var reached = ended
        var open = Array(ended)
        while let successor = open.popLast() {
            for predecessor in 0..<Self.installationCount where moves[successor] & 1 << UInt8(predecessor) != 0 {
                if reached.insert(predecessor).inserted { open.append(predecessor) }
            }
        }
        for installation in reached {
            installations[installation]?.epoch += 1
            moves[installation] = 0
            for successor in moves.indices { moves[successor] &= ~(1 << UInt8(installation)) }
        }
        return reached
    }

    mutating func noteMoves(from predecessors: Set<Int>, to successor: Int) {
        for predecessor in predecessors { moves[successor] |= 1 << UInt8(predecessor) }
    }

    mutating func signOut(_ installations: Set<Int>) {
        for installation in installations { self.installations[installation]?.owner = nil }
    }

    /// Whether everything is equal that can be seen from outside.
    func looks(like other: RegistryModel) -> Bool { installations == other.installations && tokens == other.tokens }
}

/// One of four tokens in one of three places (environment and purpose).
struct TokenName: Hashable, Sendable {
    static let numbers = 4
    static let places = [("production", "alert"), ("sandbox", "alert"), ("production", "voip")]
    static let count = numbers * places.count

    let index: Int

    init(index: Int) { self.index = index }
    init(number: Int, place: Int) { index = place * Self.numbers + number }

    /// The same token in the other environment, where that is one of the places.
    var elsewhere: TokenName? {
        switch place {
        case 0: TokenName(number: number, place: 1)
        case 1: TokenName(number: number, place: 0)
        default: nil
        }
    }

    var number: Int { index % Self.numbers }
    var place: Int { index / Self.numbers }
    var environment: String { Self.places[place].0 }
    var purpose: String { Self.places[place].1 }
    /// The hexadecimal text of the API.
    var text: String { token(number + 1) }
}
