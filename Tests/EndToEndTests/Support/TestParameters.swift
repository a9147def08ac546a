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

/// The same sequence for the same seed (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
