/// Random numbers that a printed seed brings back (SplitMix64). Every test, simulation and chaos run draws from this generator.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    package mutating func next(below bound: Int) -> Int { Int(next() % UInt64(bound)) }

    package mutating func chance(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &self) < share }

    /// Makes a separate generator for a part of a run, so that the random numbers of one part do not depend on another.
    package func branch(_ number: UInt64) -> SeededGenerator {
        var copy = SeededGenerator(seed: state ^ (number &* 0xd134_2543_de82_ef95))
        return SeededGenerator(seed: copy.next())
    }

    /// Changes, inserts, removes, repeats or cuts off bytes, one to four times.
    package mutating func damage(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...4, using: &self) where !bytes.isEmpty {
            let index = Int.random(in: 0..<bytes.count, using: &self)
            switch Int.random(in: 0..<5, using: &self) {
            case 0: bytes[index] = UInt8.random(in: .min ... .max, using: &self)
            case 1: bytes.insert(UInt8.random(in: .min ... .max, using: &self), at: index)
            case 2: bytes.remove(at: index)
            case 3: bytes.insert(contentsOf: bytes[index..<min(index + 5, bytes.count)], at: index)
            default: bytes.removeLast(Int.random(in: 0...min(8, bytes.count), using: &self))
            }
        }
        return bytes
    }
}
