/// One request that has been handed to HTTP/2 and has no answer yet.
struct InFlight {
    /// UNIX milliseconds.
    let sentAt: Int64
    let deadline: ContinuousClock.Instant
    // Half a word each: entries move when one before them goes.
    private let sharePlace: Int32
    private let requestPlace: Int32
    private let answerIndex: Int32
    private var answerStatus: Int16 = 0

    init(share: Int, request: Int, index: Int, sentAt: Int64, deadline: ContinuousClock.Instant) {
        sharePlace = Int32(share)
        requestPlace = Int32(request)
        answerIndex = Int32(index)
        self.sentAt = sentAt
        self.deadline = deadline
    }

    /// Place in the connection's open shares.
    var share: Int { Int(sharePlace) }
    /// Place in the batch's requests.
    var request: Int { Int(requestPlace) }
    /// As the caller numbered it: what the answer bears.
    var index: Int { Int(answerIndex) }
    /// 0 until the answer's headers are here.
    var status: Int {
        get { Int(answerStatus) }
        set { answerStatus = Int16(truncatingIfNeeded: newValue) }
    }
}

/// The requests in flight by stream number. Open addressing, at most half full; multiplying with the golden ratio spreads a client's
/// streams (1, 3, 5, …) evenly, so that runs stay short. Bounded by the stream limit, not by how long a stream lives.
struct InFlightTable {
    private var keys: [Int32]
    private var values: [InFlight]
    private var mask: Int
    private var shift: UInt32
    private(set) var count = 0

    private static let free: Int32 = 0
    private static let nothing = InFlight(share: 0, request: 0, index: 0, sentAt: 0, deadline: .now)

    init(minimumCapacity: Int = 256) {
        var capacity = 16
        while capacity < minimumCapacity * 2 { capacity *= 2 }
        keys = Array(repeating: Self.free, count: capacity)
        values = Array(repeating: Self.nothing, count: capacity)
        mask = capacity - 1
        shift = UInt32(32 - capacity.trailingZeroBitCount)
    }

    mutating func insert(_ stream: Int32, _ value: InFlight) {
        if (count + 1) * 2 > keys.count { grow() }
        var index = home(stream)
        while keys[index] != Self.free { index = (index + 1) & mask }
        keys[index] = stream
        values[index] = value
        count += 1
    }

    /// Notes the status of an answer whose end is still to come.
    /// - Returns: false when the stream is not (or no longer) waited for.
    mutating func setStatus(_ status: Int, of stream: Int32) -> Bool {
        guard let index = index(of: stream) else { return false }
        values[index].status = status
        return true
    }

    mutating func remove(_ stream: Int32) -> InFlight? {
        guard var hole = index(of: stream) else { return nil }
        let value = values[hole]
        count -= 1
        // Pulls the followers of the same run back, so that no search ends early at the hole.
        var next = (hole + 1) & mask
        while keys[next] != Self.free {
            if (next - home(keys[next])) & mask >= (next - hole) & mask {
                keys[hole] = keys[next]
                values[hole] = values[next]
                hole = next
            }
            next = (next + 1) & mask
        }
        keys[hole] = Self.free
        return value
    }

    func forEach(_ body: (Int32, InFlight) -> Void) {
        for index in keys.indices where keys[index] != Self.free { body(keys[index], values[index]) }
    }

    private func home(_ stream: Int32) -> Int {
        Int((UInt32(bitPattern: stream) &* 0x9e37_79b9) >> shift)
    }

    private func index(of stream: Int32) -> Int? {
        var index = home(stream)
        while keys[index] != Self.free {
            if keys[index] == stream { return index }
            index = (index + 1) & mask
        }
        return nil
    }

    private mutating func grow() {
        var larger = InFlightTable(minimumCapacity: keys.count)
        forEach { larger.insert($0, $1) }
        self = larger
    }
}
