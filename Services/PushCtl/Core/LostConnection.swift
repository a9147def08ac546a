/// A failure after which another attempt may succeed.
struct LostConnection: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// Before the next attempt: half a second, doubling up to ten.
    static func pause(attempt: Int) async throws {
        try await Task.sleep(for: .milliseconds(min(10_000, 250 << min(attempt, 6))))
    }
}
