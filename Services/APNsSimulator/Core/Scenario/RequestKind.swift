/// The kind of a request, as a scenario's `on` names it.
enum RequestKind: String, Sendable, CaseIterable {
    /// To a push port, and not a broadcast.
    case push
    /// To a port for channels.
    case channels
    case broadcast
}
