import Foundation

/// The parameters of these tests from the environment. The defaults suit CI.
enum TestParameters {
    /// Devices of a large audience.
    static var audience: Int { number("PUSH_TEST_AUDIENCE") ?? 30_000 }
    /// How long a server is away.
    static var outage: Duration { .seconds(number("PUSH_TEST_OUTAGE_SECONDS") ?? 5) }
    /// The draws of a run; printed, so that one that failed can be repeated.
    static var seed: UInt64 { number("PUSH_TEST_SEED").map { UInt64($0) } ?? UInt64.random(in: 1...999_999_999) }

    private static func number(_ name: String) -> Int? { ProcessInfo.processInfo.environment[name].flatMap { Int($0) } }
}
