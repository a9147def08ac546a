import Synchronization

/// The provider tokens that each team shows, on all connections together: APNs may count their changes so (docs/apns.md, Provider tokens).
/// Shared by all connections.
final class TokenUpdates: Sendable {
    /// A team, or a connection, may change to another token at most this often.
    static let minimumIntervalMilliseconds: Int64 = 20 * 60 * 1000
    /// How many accepted tokens of a team are remembered.
    private static let rememberedTokens = 100

    private struct Team {
        /// The last one is in use.
        var tokens: [[UInt8]]
        /// When it was first accepted, UNIX milliseconds.
        var since: Int64

        mutating func adopt(_ token: [UInt8], now: Int64) {
            tokens.removeAll { $0 == token }
            if tokens.count == TokenUpdates.rememberedTokens { tokens.removeFirst() }
            tokens.append(token)
            since = now
        }
    }

    private struct Contents {
        var readings = Readings()
        var teams: [String: Team] = [:]
        var generation: UInt64 = 0
    }

    private let contents = Mutex(Contents())
    /// Read without the lock on every request: whether another token may be in use since a connection last asked.
    private let published = Atomic<UInt64>(0)

    var generation: UInt64 { published.load(ordering: .acquiring) }

    /// The readings as the scenario has them.
    var readings: Readings {
        get { contents.withLock { $0.readings } }
        set { change { $0.readings = newValue } }
    }

    /// A connection shows a token that is good otherwise.
    /// - Parameter now: UNIX milliseconds.
    /// - Returns: false if the team has changed its token too recently.
    func admits(_ token: [UInt8], of team: String, now: Int64) -> Bool {
        contents.withLock { contents in
            let known = contents.teams[team]
            guard known?.tokens.last != token else { return true }
            if let known {
                let isRecent = now - known.since < Self.minimumIntervalMilliseconds
                switch contents.readings.tokenUpdates {
                case .connection: break
                case .team: if isRecent { return false }
                case .teamNew:
                    if known.tokens.contains(token) { return true }
                    if isRecent { return false }
                }
            }
            contents.teams[team, default: Team(tokens: [], since: now)].adopt(token, now: now)
            contents.generation += 1
            published.store(contents.generation, ordering: .releasing)
            return true
        }
    }

    private func change(_ body: (inout Contents) -> Void) {
        contents.withLock { contents in
            body(&contents)
            contents.generation += 1
            published.store(contents.generation, ordering: .releasing)
        }
    }
}
