import Postgres
import PushModel

/// What becomes of tokens, and why: every change writes its line of history in the same statement.
extension OutcomeStore {
    /// Tokens that one transaction puts into quarantine at most, so that it stays short.
    package static let maximumQuarantined = 5000

    package enum RetiredReason: String { case gone, rejected }

    /// Rejections of one app are judged one batch after another, whichever process has it: else two batches that each stay below the
    /// limit would not know of each other, or one would retire what the other has just found to be unjust.
    /// - Returns: the apps, in ascending order.
    package func lockBrakes(of entries: [OutcomeBatch.Entry]) throws -> [Int64] {
        guard !entries.isEmpty else { return [] }
        let notifications = Set(entries.map(\.delivery.notification)).sorted()
        let apps = try session.execute(Self.rejectingApps, [.ids(notifications)]).map { row in try row.int64(0) }
        try lockBrakes(of: apps)
        return apps
    }

    package func lockBrakes(of apps: [Int64]) throws {
        guard !apps.isEmpty else { return }
        try session.execute(Self.lockBrakes, [.int64Array(apps)])
    }

    package func brakes(of apps: [Int64]) throws -> [Int64: RejectionBrake] {
        guard !apps.isEmpty else { return [:] }
        var brakes: [Int64: RejectionBrake] = [:]
        for row in try session.execute(Self.window, [.int64Array(apps), .int32(Int32(RejectionBrake.windowMinutes))]) {
            brakes[try row.int64(0)] = RejectionBrake(finished: try row.int64(1), rejected: try row.int64(2))
        }
        return brakes
    }

    /// What was retired as rejected in the brake's window and is not in quarantine yet; at most ``maximumQuarantined``.
    package func retiredInWindow(of apps: [Int64]) throws -> [Int64] {
        guard !apps.isEmpty else { return [] }
        return try session.execute(
            Self.retiredInWindow,
            [.int64Array(apps), .int32(Int32(RejectionBrake.windowMinutes)), .int64(Int64(Self.maximumQuarantined))]
        ).map { row in try row.int64(0) }
    }

    package func lockTokens(_ tokens: [Int64]) throws {
        guard !tokens.isEmpty else { return }
        try session.execute(Self.lockTokens, [.int64Array(tokens)])
    }

    /// One conditional statement, so that a registration that comes in between cannot be undone (APNS.md 4.3).
    package func retire(_ retirements: [TokenVerdicts.Retirement], reason: RetiredReason) throws -> Int {
        guard !retirements.isEmpty else { return 0 }
        return try session.execute(
            Self.retire,
            [
                .int64Array(retirements.map(\.token)), .timestampArray(retirements.map(\.notRegisteredAfter)), .text(reason.rawValue),
                .optionalInt32Array(retirements.map { $0.said.status.map { Int32(clamping: $0) } }),
                .optionalTextArray(retirements.map(\.said.reason)),
                .optionalTimestampArray(retirements.map { Self.storable($0.said.timestamp) }), .ids(retirements.map(\.said.id)),
                .optionalTextArray(retirements.map(\.environment)),
            ]
        ).affected
    }

    /// The first time that APNs accepts a token, its environment is a fact.
    package func prove(_ proofs: [TokenVerdicts.Proof]) throws {
        guard !proofs.isEmpty else { return }
        try session.execute(Self.prove, [.int64Array(proofs.map(\.token)), .textArray(proofs.map(\.environment))])
    }

    /// The rows that hold the same tokens in the other environment.
    package func rivals(of corrections: [TokenVerdicts.Correction]) throws -> [Int64] {
        guard !corrections.isEmpty else { return [] }
        return try session.execute(Self.rivals, [.int64Array(corrections.map(\.token))]).map { row in try row.int64(0) }
    }

    /// The environment in which APNs took the token is the token's from now on. Where the token has a row there already, or something else
    /// is alive in that place, this row yields to it.
    /// - Returns: how many tokens were found to be registered for the wrong environment.
    package func correct(_ corrections: [TokenVerdicts.Correction]) throws -> Int {
        guard !corrections.isEmpty else { return 0 }
        return try session.execute(
            Self.correct,
            [
                .int64Array(corrections.map(\.token)), .textArray(corrections.map(\.environment)), .ids(corrections.map(\.said.id)),
                .optionalInt32Array(corrections.map { $0.said.status.map { Int32(clamping: $0) } }),
            ]
        ).affected
    }

    /// - Returns: how many are in quarantine now that were not.
    package func quarantine(_ tokens: [Int64]) throws -> Int {
        guard !tokens.isEmpty else { return 0 }
        return try session.execute(Self.quarantine, [.int64Array(tokens)]).affected
    }

    /// A moment that no calendar knows is nobody's word and must not keep the rest from being applied. 253402300799999: the end of year 9999.
    private static func storable(_ milliseconds: Int64?) -> Int64? {
        milliseconds.flatMap { (0...253_402_300_799_999).contains($0) ? $0 : nil }
    }
}
