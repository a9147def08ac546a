/// What a pool sends. Apple serves each at hosts of its own, so each has connections of its own.
package enum APNsService: String, Sendable, CaseIterable {
    /// Pushes to devices.
    case device
    /// Pushes to broadcast channels.
    case broadcast
    /// The management of broadcast channels.
    case channels
}
