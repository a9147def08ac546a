import Foundation

/// Receipts that the server does not have yet. A source and an event make one receipt, however often they are reported.
struct ReceiptBook: Codable, Hashable, Sendable {
    /// The most receipts in one request.
    static let batch = 100
    /// One more drops the oldest.
    static let capacity = 1_000
    /// How many sent receipts it remembers, so that a second report of the same event is no second receipt.
    static let memory = 200

    private struct Key: Codable, Hashable {
        var source: PushSource
        var event: PushReceipt.Event

        init(_ receipt: PushReceipt) {
            source = receipt.source
            event = receipt.event
        }
    }

    private(set) var pending: [PushReceipt] = []
    private var sent: [Key] = []

    /// - Returns: False if the receipt is here already, or was sent.
    mutating func add(_ receipt: PushReceipt) -> Bool {
        let key = Key(receipt)
        guard !sent.contains(key), !pending.contains(where: { Key($0) == key }) else { return false }
        pending.append(receipt)
        if pending.count > Self.capacity { pending.removeFirst() }
        return true
    }

    mutating func remove(_ receipts: [PushReceipt]) {
        let keys = Set(receipts.map(Key.init))
        pending.removeAll { keys.contains(Key($0)) }
        sent = (sent + receipts.map(Key.init)).suffix(Self.memory)
    }
}
