/// A pseudorandom number that depends only on where it is drawn: seed, rule, purpose, connection and position.
struct SeededDraw {
    /// Draws of one rule at one position that must not depend on each other.
    enum Purpose: UInt64 {
        case share, choice, delay, token
    }

    let bits: UInt64

    init(_ seed: UInt64, _ rule: Int, _ purpose: Purpose, _ connection: UInt64, _ position: UInt64) {
        var value = seed
        for part in [UInt64(truncatingIfNeeded: rule), purpose.rawValue, connection, position] {
            value = Self.mixed(value ^ Self.mixed(part))
        }
        bits = value
    }

    /// From 0 up to, not including, 1.
    var fraction: Double { Double(bits >> 11) / Double(1 << 53 as UInt64) }

    /// The finaliser of SplitMix64.
    private static func mixed(_ value: UInt64) -> UInt64 {
        var mixed = value &+ 0x9e37_79b9_7f4a_7c15
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}

extension TokenKey {
    /// The same in every run (FNV-1a), unlike `hashValue`.
    var stableHash: UInt64 {
        bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }
}
