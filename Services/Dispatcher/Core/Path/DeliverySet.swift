import PushModel

/// Some deliveries of one job, by their place in it. Two machine words, because a job has at most ``PushJob/maximumDeliveries``.
struct DeliverySet: Equatable, Sendable {
    static let capacity = 128

    private var bits: UInt128 = 0

    init() {}

    /// The first `count` places.
    init(all count: Int) {
        precondition(count <= Self.capacity)
        bits = count == Self.capacity ? .max : (1 << UInt128(count)) - 1
    }

    var isEmpty: Bool { bits == 0 }
    var count: Int { bits.nonzeroBitCount }

    func contains(_ index: Int) -> Bool {
        index >= 0 && index < Self.capacity && bits >> UInt128(index) & 1 == 1
    }

    mutating func insert(_ index: Int) {
        bits |= 1 << UInt128(index)
    }

    /// - Returns: whether it was there.
    mutating func remove(_ index: Int) -> Bool {
        guard contains(index) else { return false }
        bits &= ~(1 << UInt128(index))
        return true
    }

    mutating func subtract(_ other: DeliverySet) {
        bits &= ~other.bits
    }

    func intersection(_ other: DeliverySet) -> DeliverySet {
        var both = self
        both.bits &= other.bits
        return both
    }

    /// Calls `body` with each place, in ascending order.
    func forEach(_ body: (Int) -> Void) {
        var rest = bits
        while rest != 0 {
            body(rest.trailingZeroBitCount)
            rest &= rest - 1
        }
    }

    func filter(_ isChosen: (Int) -> Bool) -> DeliverySet {
        var chosen = DeliverySet()
        forEach { if isChosen($0) { chosen.insert($0) } }
        return chosen
    }

    /// The places in ascending order.
    var indices: [Int] {
        var indices: [Int] = []
        indices.reserveCapacity(count)
        var rest = bits
        while rest != 0 {
            indices.append(rest.trailingZeroBitCount)
            rest &= rest - 1
        }
        return indices
    }
}
