public import Foundation

/// Receipts on their way from the service extension to the app: two processes that share the folder of an app group.
///
/// Each receipt is a file of its own, named after source and event. So the processes never write the same file with different
/// content, and the same receipt twice is one.
public struct ReceiptFolder: Sendable {
    private let folder: URL

    /// One more removes the oldest.
    private let capacity: Int

    /// - Parameter folder: A folder in the app group's container. The first receipt makes it.
    public init(folder: URL) { self.init(folder: folder, capacity: ReceiptBook.capacity) }

    init(folder: URL, capacity: Int) {
        self.folder = folder
        self.capacity = capacity
    }

    /// Leaves a receipt for the app. When it returns, a kill loses nothing.
    public func leave(_ receipt: PushReceipt) throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let name = "\(receipt.source.notification.uuidString.lowercased()).\(receipt.source.job).\(receipt.event.rawValue).json"
        try JSONEncoder().encode(receipt).write(to: folder.appendingPathComponent(name), options: .atomic)
        for file in try files().dropLast(capacity) { try remove(file) }
    }

    /// Hands the receipts to the client, the oldest first, then removes their files. A kill between the two repeats them, and the client
    /// counts each once.
    public func collect(into client: PushClient) throws {
        guard FileManager.default.fileExists(atPath: folder.path) else { return }
        // A file that cannot be read now, as before the first unlock, stays for the next time.
        let files = try files().compactMap { file in (try? Data(contentsOf: file)).map { (file, $0) } }
        // A file that is no receipt goes with the others.
        let receipts = files.compactMap { _, data in try? JSONDecoder().decode(PushReceipt.self, from: data) }
        // Only a client that could write its store has kept them.
        guard client.add(receipts) else { return }
        for (file, _) in files { try remove(file) }
    }

    /// The other process may have removed it.
    private func remove(_ file: URL) throws {
        do {
            try FileManager.default.removeItem(at: file)
        } catch let error as CocoaError where error.code == .fileNoSuchFile {}
    }

    /// The oldest first.
    private func files() throws -> [URL] {
        try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: [.contentModificationDateKey])
            .filter { $0.pathExtension == "json" }
            .map { file in
                (file, (try? file.resourceValues(forKeys: [.contentModificationDateKey]))?.contentModificationDate ?? .distantPast)
            }
            .sorted { $0.1 < $1.1 }.map(\.0)
    }
}

/// A service extension's step: it leaves the receipt `shown` for the app.
public struct ReceiptStep: NotificationStep {
    private let folder: ReceiptFolder
    private let clock: any PushClock

    /// - Parameter clock: The clock whose date stamps the receipts; for tests.
    public init(folder: ReceiptFolder, clock: any PushClock = SystemPushClock()) {
        self.folder = folder
        self.clock = clock
    }

    /// See ``NotificationStep/improve(_:)``. The content stays as it is; a payload without a source leaves no receipt.
    public func improve(_ content: NotificationContent) async throws -> NotificationContent {
        if let source = content.notification.source {
            try folder.leave(PushReceipt(source: source, event: .shown, at: clock.now))
        }
        return content
    }
}
