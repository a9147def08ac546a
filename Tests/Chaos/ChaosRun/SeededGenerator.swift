/// The same sequence for the same seed (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// A separate generator for each part of the run, so that the random numbers of one part do not depend on another.
    func branch(_ number: UInt64) -> SeededGenerator {
        var copy = SeededGenerator(seed: state ^ (number &* 0xd134_2543_de82_ef95))
        return SeededGenerator(seed: copy.next())
    }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    mutating func chance(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &self) < share }
}
