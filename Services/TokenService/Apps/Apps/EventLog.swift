/// A table of state changes, whose rows are numbered in ascending order.
package enum EventLog: String, CaseIterable, Sendable {
    case notifications, installations
    case deviceReceipts = "device_receipts"

    /// In the ids of events.
    package var number: UInt64 {
        switch self {
        case .notifications: 1
        case .installations: 2
        case .deviceReceipts: 3
        }
    }
}
