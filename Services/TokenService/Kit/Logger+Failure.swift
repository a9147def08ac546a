package import Logging
import Postgres

extension Logger {
    /// Why the database refused a row, without the server's text: a trigger's may quote the row.
    package static func cause(of error: any Error) -> String {
        guard let error = error as? PostgresError else { return "\(type(of: error))" }
        // Our own text: the column and the types.
        guard let state = error.sqlState else { return error.code == .decoding ? error.message : "\(error.code)" }
        return "SQLSTATE \(state)" + (error.constraint.map { ", constraint \($0)" } ?? "")
    }

    /// Logs a round that failed, each time: the log leaves repetitions out. All loops log the same text for a database that cannot be
    /// reached, because it is one fault.
    package func failed(_ message: Message, _ error: any Error, _ metadata: Metadata = [:]) {
        if let error = error as? PostgresError, error.isUnavailable, !error.isOfSize {
            warning(
                "The database cannot be used: requests are answered 503, and everything else waits", metadata: [LogKey.error: "\(error)"])
        } else {
            warning(message, metadata: metadata.merging([LogKey.error: "\(String(describing: error))"]) { own, _ in own })
        }
    }
}
