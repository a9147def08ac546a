import Foundation

@testable import PushClient

/// A store that can be locked like a keychain before the first unlock. It still takes what is written: the worst for a client that takes
/// it for empty.
final class MemoryStore: PushStore {
    struct Locked: Error {}
    struct Full: Error {}

    private struct State {
        var items: [PushStoreItem: Data] = [:]
        var isLocked = false
        var isFull = false
    }

    private let state = Guarded(State())

    init() {}

    func copy() -> MemoryStore {
        let other = MemoryStore()
        let items = state.withLock { $0.items }
        other.state.withLock { $0.items = items }
        return other
    }

    var isLocked: Bool {
        get { state.withLock { $0.isLocked } }
        set { state.withLock { $0.isLocked = newValue } }
    }

    /// Nothing can be written.
    var isFull: Bool {
        get { state.withLock { $0.isFull } }
        set { state.withLock { $0.isFull = newValue } }
    }

    func read(_ item: PushStoreItem) throws -> Data? {
        try state.withLock { state in
            guard !state.isLocked else { throw Locked() }
            return state.items[item]
        }
    }

    func write(_ data: Data?, for item: PushStoreItem) throws {
        try state.withLock { state in
            guard !state.isFull else { throw Full() }
            state.items[item] = data
        }
    }
}

/// For a machine that a test drives by hand.
struct NoTransport: PushTransport, CredentialSource {
    func send(_ request: PushRequest) async throws -> PushResponse { throw CancellationError() }
    func credential(installation: UUID, user: String?) async throws -> DeviceCredential? { nil }
}
