/// Sets the number on the app's icon. An adaptor does it on Apple's platforms.
public protocol PushBadge: Sendable {
    /// - Parameter count: 0 removes the badge.
    func set(_ count: Int) async throws
}

extension PushBadge {
    /// Clears the badge, when the person has seen everything.
    public func clear() async throws { try await set(0) }
}
