import Postgres
import PushModel

/// Which process of the fleet does the housekeeping: one row, held while it is renewed. The holder renews it in the transaction of
/// each step, so a step of one that was given up for dead cannot commit beside its successor's.
struct HousekeepingLease: Sendable {
    private static let seconds = 60.0

    private let holder = PushID.random()

    /// - Returns: false where another process holds it, or the next round is not due yet.
    func take(in session: PostgresSession) throws -> Bool {
        try session.execute(Self.take, [.id(holder), .double(Self.seconds)]).affected == 1
    }

    /// - Throws: ``LeaseLost``
    func renew(in session: PostgresSession) throws {
        guard try session.execute(Self.renew, [.id(holder), .double(Self.seconds)]).affected == 1 else { throw LeaseLost() }
    }

    /// Lets go: the next round is due then.
    func release(after seconds: Double, in session: PostgresSession) throws {
        try session.execute(Self.release, [.id(holder), .double(seconds)])
    }

    private static let take: PostgresStatement = """
        UPDATE housekeeping SET holder = $1, free_from = now() + make_interval(secs => $2)
        WHERE only_row IN (SELECT only_row FROM housekeeping WHERE free_from <= now() FOR NO KEY UPDATE SKIP LOCKED)
        """
    private static let renew: PostgresStatement =
        "UPDATE housekeeping SET free_from = now() + make_interval(secs => $2) WHERE holder = $1"
    private static let release: PostgresStatement =
        "UPDATE housekeeping SET holder = NULL, free_from = now() + make_interval(secs => $2) WHERE holder = $1"
}

/// Another process took the housekeeping over.
struct LeaseLost: Error {}
