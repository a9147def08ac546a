/// The open streams of one session, in slots that are used again. nghttp2 carries the slot's number as a stream's user data, so that a
/// callback finds its stream without a search. Slots are not destroyed when freed: what they own keeps its capacity.
final class StreamTable<Stream> {
    @exclusivity(unchecked) private(set) var base: UnsafeMutablePointer<Stream>
    private var capacity: Int
    /// Slots ever used; those beyond are uninitialized memory.
    private(set) var highWater = 0
    @exclusivity(unchecked) private var free: [Int] = []
    private let make: () -> Stream

    init(_ make: @escaping () -> Stream) {
        self.make = make
        capacity = 16
        base = .allocate(capacity: capacity)
    }

    deinit {
        base.deinitialize(count: highWater)
        base.deallocate()
    }

    var count: Int { highWater - free.count }

    /// - Returns: a slot that nobody uses, as its last user left it or new. Pointers to slots are invalid afterwards.
    func allocate() -> Int {
        if let slot = free.popLast() { return slot }
        if highWater == capacity { grow() }
        (base + highWater).initialize(to: make())
        highWater += 1
        return highWater - 1
    }

    func release(_ slot: Int) {
        free.append(slot)
    }

    private func grow() {
        let larger = UnsafeMutablePointer<Stream>.allocate(capacity: capacity * 2)
        larger.moveInitialize(from: base, count: highWater)
        base.deallocate()
        base = larger
        capacity *= 2
    }
}

/// A slot's number as nghttp2's user data: one more, so that slot 0 is not a null pointer.
@inline(__always)
func userData(slot: Int) -> UnsafeMutableRawPointer? {
    UnsafeMutableRawPointer(bitPattern: slot + 1)
}

@inline(__always)
func slot(userData: UnsafeMutableRawPointer?) -> Int? {
    guard let userData else { return nil }
    return Int(bitPattern: userData) - 1
}
