import Foundation
import Testing

@testable import PushClient

@Suite struct PushStoreTests {
    private func withFolder(_ body: (URL) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("push-client-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder)
    }

    @Test func filesKeepWhatWasWritten() throws {
        try withFolder { folder in
            let store = FilePushStore(folder: folder)
            #expect(try store.read(.record) == nil)
            try store.write(nil, for: .record)
            try store.write(Data("one".utf8), for: .record)
            try store.write(Data("two".utf8), for: .record)
            #expect(try FilePushStore(folder: folder).read(.record) == Data("two".utf8))
            #expect(try FilePushStore(folder: folder).read(.credential) == nil)
            try store.write(nil, for: .record)
            #expect(try store.read(.record) == nil)
        }
    }

    @Test func aFileThatCannotBeReadIsNotAbsent() throws {
        try withFolder { folder in
            let store = FilePushStore(folder: folder)
            // A folder in the place of the file: reading fails, also for root.
            try FileManager.default.createDirectory(
                at: folder.appendingPathComponent("push-record.json"), withIntermediateDirectories: true)
            #expect(throws: (any Error).self) { try store.read(.record) }
        }
    }

    @Test func aBackupOfAnotherDeviceCountsForNothing() throws {
        let (keychain, files) = (MemoryStore(), MemoryStore())
        let server = PushServer.backend(NoTransport())
        func opened() throws -> RegistrationMachine {
            let store = SplitPushStore(secrets: keychain, rest: files)
            return try RegistrationMachine(PushConfiguration(app: "shop", environment: .production, server: server, store: store))
        }
        var record = RegistrationRecord(installation: UUID(), server: .new)
        record.desired.presence = .signedIn("ada")
        try files.write(JSONEncoder().encode(record), for: .record)
        let machine = try opened()
        #expect(machine.record.desired.presence == .signedOut)
        #expect(machine.record.installation != record.installation)
        #expect(try opened().record.installation == machine.record.installation)
    }

    @Test func receiptsOfAnExtensionReachTheClientOnce() async throws {
        try await withFolderAsync { folder in
            let app = PushClientTests.App()
            let client = app.client()
            let receipts = ReceiptFolder(folder: folder)
            try receipts.collect(into: client)
            let receipt = PushReceipt(source: PushSource(notification: UUID(), job: 0), event: .shown, at: Date())
            try receipts.leave(receipt)
            try receipts.leave(receipt)
            try receipts.leave(PushReceipt(source: receipt.source, event: .dismissed, at: Date()))
            try receipts.collect(into: client)
            try receipts.leave(receipt)
            try receipts.collect(into: client)
            #expect(client.status?.pendingReceipts == 2)
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
        }
    }

    @Test func aReceiptThatCannotBeReadStays() async throws {
        try await withFolderAsync { folder in
            let unreadable = folder.appendingPathComponent("a.json")
            try FileManager.default.createDirectory(at: unreadable, withIntermediateDirectories: true)
            try Data("no receipt".utf8).write(to: folder.appendingPathComponent("b.json"))
            try ReceiptFolder(folder: folder).collect(into: PushClientTests.App().client())
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["a.json"])
        }
    }

    @Test func aFolderKeepsTheNewestReceipts() async throws {
        try await withFolderAsync { folder in
            let receipts = ReceiptFolder(folder: folder, capacity: 2)
            let all = (0..<4).map {
                PushReceipt(source: PushSource(notification: UUID(), job: 0), event: .shown, at: Date(timeIntervalSince1970: Double($0)))
            }
            for receipt in all {
                try receipts.leave(receipt)
                // Files of one moment have no order.
                let name = "\(receipt.source.notification.uuidString.lowercased()).0.shown.json"
                try FileManager.default.setAttributes(
                    [.modificationDate: receipt.at], ofItemAtPath: folder.appendingPathComponent(name).path)
            }
            let client = PushClientTests.App().client()
            try receipts.collect(into: client)
            #expect(client.status?.pendingReceipts == 2)
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
        }
    }

    private func withFolderAsync(_ body: (URL) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("push-client-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        try await body(folder)
    }
}
