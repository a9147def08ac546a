public import Foundation

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
