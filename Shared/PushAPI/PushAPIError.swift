/// Why a call has no result.
///
/// A cancelled task throws `CancellationError` instead.
public enum PushAPIError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The service answered with a refusal.
    case refused(PushAPI.Problem)
    /// No whole answer came. The service may have done what the call asks for.
    case lostConnection(String)
    /// The answer is not what the API describes, or a value of the caller's is no JSON or no URL.
    case unreadable(String)

    /// Whether the same call may succeed later.
    public var isTemporary: Bool {
        switch self {
        case .refused(let problem): problem.isTemporary
        case .lostConnection: true
        case .unreadable: false
        }
    }

    public var description: String {
        switch self {
        case .refused(let problem): problem.description
        case .lostConnection(let words), .unreadable(let words): words
        }
    }
}
