/// On how many installations a user may be signed in at once (`docs/registration.md`, rule 5).
package enum DevicePolicy: String, Sendable, CaseIterable {
    case multi, single
}

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
