/// PostgreSQL manual 13.2.
package enum TransactionIsolation: Sendable {
    case readCommitted, repeatableRead, serializable

    var begin: String {
        switch self {
        case .readCommitted: "BEGIN ISOLATION LEVEL READ COMMITTED"
        case .repeatableRead: "BEGIN ISOLATION LEVEL REPEATABLE READ"
        case .serializable: "BEGIN ISOLATION LEVEL SERIALIZABLE"
        }
    }
}
