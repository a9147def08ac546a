public import Foundation

/// Receipts on their way from the service extension to the app: two processes that share the folder of an app group.
///
/// Each receipt is a file of its own, named after source and event. So the processes never write the same file with different
/// content, and the same receipt twice is one.
public struct ReceiptFolder: Sendable {
    private let folder: URL

    /// - Parameter folder: In the app group's container. The first receipt makes it.
    public init(folder: URL) {
        self.folder = folder
    }

    /// Leaves a receipt for the app. When it returns, a kill loses nothing.
    public func leave(_ receipt: PushReceipt) throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let name = "\(receipt.source.notification.uuidString.lowercased()).\(receipt.source.job).\(receipt.event.rawValue).json"
        try JSONEncoder().encode(receipt).write(to: folder.appendingPathComponent(name), options: .atomic)
    }

    /// Hands each receipt to the client, then removes its file. A kill between the two repeats the receipt, and the client counts it once.
    public func collect(into client: PushClient) throws {
        guard FileManager.default.fileExists(atPath: folder.path) else { return }
        for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        where file.pathExtension == "json" {
            if let data = try? Data(contentsOf: file), let receipt = try? JSONDecoder().decode(PushReceipt.self, from: data) {
                // Only a client that could read its store has kept the receipt.
                guard client.add(receipt) else { return }
            }
            try FileManager.default.removeItem(at: file)
        }
    }
}

/// A service extension's step: it leaves the receipt `shown` for the app.
public struct ReceiptStep: NotificationStep {
    private let folder: ReceiptFolder
    private let clock: any PushClock

    /// - Parameter clock: Its date stamps the receipts; for tests.
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
