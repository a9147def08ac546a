import Synchronization
package import TokenServiceKit

/// How much one installation may have and do (rule 10 of `docs/registration.md`): its rows fit in any batch, and its history stays small.
/// A device that reports in earnest is far below.
package struct InstallationBounds: Sendable {
    /// Active tokens. A further one retires the one that was registered longest ago, of those that the request does not name.
    package var activeTokens = 64
    /// Retired tokens. A further one deletes the one that was retired longest ago.
    package var retiredTokens = 200
    /// Rows of one token value in an app: it is the token of one device, so it has a few. A further one deletes another that the request
    /// does not name: the one that was retired longest ago, else the one that was registered longest ago.
    package var rowsOfValue = 16
    /// Lines of history that it may make at once, and in each hour.
    package var lines: Int64 = 1000

    package init() {}

    /// Milliseconds of a whole allowance.
    static let hour: Int64 = 3_600_000
    /// Lines that one request counts, however many it made. It names 64 tokens at most, as a line of an import may, and each may make a
    /// few.
    private static let linesOfRequest: Int64 = 400
    /// How far ahead lines can count: a request is taken while they count an hour ahead. Farther ahead, PostgreSQL's clock was set back
    /// since.
    var farthest: Int64 { Self.hour + Self.linesOfRequest * lineTime }

    /// How long a line counts, in milliseconds.
    var lineTime: Int64 { Self.hour / lines }
}

/// The installation has made as many lines of history as it may for now. Nothing was changed.
package struct TooManyChanges: ProblemError {
    package let retryAfterSeconds: Int

    package var problem: APIError {
        APIError(
            .tooManyChanges,
            "an installation may make \(InstallationBounds().lines) lines of history in an hour; nothing was changed",
            retryAfterSeconds: retryAfterSeconds)
    }
}

/// Installations with many tokens, or to which tokens came along many others (``LongChain``), as far as this process has met them. A change
/// of one shares its transaction with no other installation's.
final class CrowdedInstallations: Sendable {
    /// Half of what one may have. All others have a handful.
    static let tokens = 128
    /// It bounds the memory.
    private static let maximum = 10_000

    private let keys = Mutex<Set<InstallationKey>>([])

    func contains(_ key: InstallationKey) -> Bool { keys.withLock { !$0.isEmpty && $0.contains(key) } }

    /// Notes the tokens after a change, which has fenced a long chain or did not need to.
    func note(_ key: InstallationKey, tokens: Int) {
        guard tokens < Self.tokens else { return note(key) }
        keys.withLock { keys in if !keys.isEmpty { keys.remove(key) } }
    }

    func note(_ key: InstallationKey) {
        keys.withLock { keys in
            if keys.count >= Self.maximum { keys.removeAll(keepingCapacity: true) }
            keys.insert(key)
        }
    }
}
