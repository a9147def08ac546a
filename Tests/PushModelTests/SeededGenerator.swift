/// Random numbers that a printed seed brings back (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var value = state
        value = (value ^ value >> 30) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ value >> 27) &* 0x94d0_49bb_1331_11eb
        return value ^ value >> 31
    }

    /// One to four bytes changed, inserted, taken out, repeated or cut off.
    mutating func damage(_ bytes: [UInt8]) -> [UInt8] {
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
