/// The open streams of one session, in slots that are used again. nghttp2 carries the slot's number as a stream's user data, so that a
/// callback finds its stream without a search. A released slot's buffers keep their capacity.
struct StreamTable<Stream> {
    private var slots: [Stream] = []
    private var free: [Int] = []
    private let make: () -> Stream

    init(_ make: @escaping () -> Stream) { self.make = make }

    /// Every slot, also those that are released.
    var indices: Range<Int> { slots.indices }

    subscript(slot: Int) -> Stream {
        _read { yield slots[slot] }
        _modify { yield &slots[slot] }
    }

    /// - Returns: a free slot, new or as its last user left it.
    mutating func allocate() -> Int {
        if let slot = free.popLast() { return slot }
        slots.append(make())
        return slots.count - 1
    }

    mutating func release(_ slot: Int) { free.append(slot) }
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
