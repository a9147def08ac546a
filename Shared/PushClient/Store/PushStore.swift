public import Foundation

/// What the client stores.
public enum PushStoreItem: String, Sendable, CaseIterable {
    /// The installation's id: a secret store such as the keychain keeps it over a reinstall.
    case installation
    /// The device credential, a secret.
    case credential
    /// What the app wants the server to know, what the server is known to have, and receipts.
    case record
}

/// Durable storage for the client. It calls from any thread, one call at a time. A store must not call the client.
public protocol PushStore: Sendable {
    /// Returns nil only if the item certainly does not exist. Throws if the item cannot be read now: the client must not take a locked
    /// keychain for a new device.
    func read(_ item: PushStoreItem) throws -> Data?

    /// Replaces the item, or removes it if `data` is nil. When this returns, a kill of the process loses nothing.
    func write(_ data: Data?, for item: PushStoreItem) throws
}

/// Secrets in one store, the rest in another: the keychain and a file, for example.
public struct SplitPushStore: PushStore {
    private let secrets: any PushStore
    private let rest: any PushStore

    /// `secrets` keeps installation and credential, `rest` keeps the record.
    public init(secrets: any PushStore, rest: any PushStore) {
        self.secrets = secrets
        self.rest = rest
    }

    /// See ``PushStore/read(_:)``.
    public func read(_ item: PushStoreItem) throws -> Data? { try store(of: item).read(item) }

    /// See ``PushStore/write(_:for:)``.
    public func write(_ data: Data?, for item: PushStoreItem) throws { try store(of: item).write(data, for: item) }

    private func store(of item: PushStoreItem) -> any PushStore { item == .record ? rest : secrets }
}
