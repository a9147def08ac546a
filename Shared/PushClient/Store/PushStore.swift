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

/// Keeps each item in a file of its own, which it replaces in one step.
public struct FilePushStore: PushStore {
    private let folder: URL

    /// - Parameter folder: Made at the first write. On Apple's platforms a folder in Application Support, or in the app group's container
    ///   if a service extension leaves receipts.
    public init(folder: URL) {
        self.folder = folder
    }

    /// See ``PushStore/read(_:)``. Throws Foundation's error if the file is there and cannot be read.
    public func read(_ item: PushStoreItem) throws -> Data? {
        do {
            return try Data(contentsOf: file(item))
        } catch let error as CocoaError where error.code == .fileReadNoSuchFile || error.code == .fileNoSuchFile {
            return nil
        }
    }

    /// See ``PushStore/write(_:for:)``. On Apple's platforms the file can be read from the device's first unlock on.
    public func write(_ data: Data?, for item: PushStoreItem) throws {
        guard let data else {
            do {
                try FileManager.default.removeItem(at: file(item))
            } catch let error as CocoaError where error.code == .fileNoSuchFile || error.code == .fileReadNoSuchFile {}
            return
        }
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        #if os(Linux)
            try data.write(to: file(item), options: .atomic)
        #else
            // A silent push may start the app while the device is locked.
            try data.write(to: file(item), options: [.atomic, .completeFileProtectionUntilFirstUserAuthentication])
        #endif
    }

    private func file(_ item: PushStoreItem) -> URL { folder.appendingPathComponent("push-\(item.rawValue).json") }
}
