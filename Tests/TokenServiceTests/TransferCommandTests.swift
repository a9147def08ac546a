import ArgumentParser
import FoundationEssentials
import Postgres
import PushAPI
import PushModel
import StrictJSON
import Synchronization
import TestSupport
import Testing

@testable import PushCtl

@Suite("pushctl import and export", .serialized, .timeLimit(.minutes(5)))
struct TransferCommandTests {
    /// Gives a file piece by piece, and calls `onRead` before each.
    private static func reader(_ text: String, piece: Int = 65_536, onRead: @escaping @Sendable () -> Void = {})
        -> @Sendable () throws -> [UInt8]
    {
        let bytes = Array(text.utf8)
        let position = Mutex(0)
        return {
            onRead()
            return position.withLock { start in
                let end = min(start + piece, bytes.count)
                defer { start = end }
                return Array(bytes[start..<end])
            }
        }
    }

    @Test("An import and an export go on after lost connections") func lostConnections() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let proxy = try FaultProxy(port: running.client.port)
            let total = 6000
            let text = (1...total).map { importLine($0, more: $0 == 4000 ? #","colour":1"# : "") }.joined(separator: "\n")
            let failures = Signal<String>()
            let cuts = Mutex(0)
            let url = "http://127.0.0.1:\(proxy.port)"
            try await PushAPI.with(baseURL: url, key: shop.key) { client in
                let source = ImportSource(firstLine: 1, read: Self.reader(text, piece: 20_000))
                let counts = try await ImportRun(
                    client: client, app: "shop", source: source, maximumAttempts: 5, pause: { _ in },
                    onFailure: { failures.send(String(decoding: $0, as: UTF8.self)) },
                    onProgress: { counts, _ in
                        let isDue = cuts.withLock { cuts in
                            guard cuts < 3, counts.through > 1500 * (cuts + 1) else { return false }
                            cuts += 1
                            return true
                        }
                        if isDue { proxy.cut() }
                    }
                ).run()
                #expect(counts.through == total && counts.failed == 1)
                #expect(cuts.withLock { $0 } == 3)
            }
            #expect(failures.waiting.count == 1 && failures.waiting[0].hasPrefix(#"{"line":4000,"#))
            #expect(try await running.count("SELECT count(*) FROM installations") == Int64(total - 1))

            let lines = Signal<String>()
            try await PushAPI.with(baseURL: url, key: shop.key) { client in
                let seen = Mutex(0)
                let count = try await ExportRun(
                    client: client, app: "shop", maximumAttempts: 5, pause: { _ in },
                    onLine: { line in
                        lines.send(String(decoding: line, as: UTF8.self))
                        let number = seen.withLock { seen in
                            seen += 1
                            return seen
                        }
                        if number == 1500 { proxy.cut() }
                    }, onProgress: { _ in }
                ).run(after: nil)
                #expect(count == total - 1)
            }
            #expect(lines.waiting == (try await shop.export()).texts.dropLast())
            #expect(proxy.accepted.waiting.count > 3)
            proxy.stop()
        }
    }

    @Test("A refusal ends an import at once, and an absent server ends it with the line to go on from") func failedImports() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let reader = try await running.client.makeKey(app: "shop", scopes: ["read"])
            for (url, key, words) in [
                ("http://127.0.0.1:\(shop.port)", reader.key, "403 forbidden"),
                ("http://127.0.0.1:\(FreePorts.closed)", shop.key, "go on with --from-line 3"),
            ] {
                let error = await #expect(throws: (any Error).self) {
                    try await PushAPI.with(baseURL: url, key: key) { client in
                        let source = ImportSource(firstLine: 3, read: Self.reader((1...9).map { importLine($0) }.joined(separator: "\n")))
                        _ = try await ImportRun(
                            client: client, app: "shop", source: source, maximumAttempts: 2, pause: { _ in }, onFailure: { _ in },
                            onProgress: { _, _ in }
                        ).run()
                    }
                }
                #expect("\(error.map { "\($0)" } ?? "")".contains(words))
            }
        }
    }

    @Test("A file that cannot be read to its end ends an import at once, with the reason") func unreadableFile() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let begin = Self.reader(importLine(1) + "\n")
            let error = await #expect(throws: CommandFailure.self) {
                try await PushAPI.with(baseURL: "http://127.0.0.1:\(shop.port)", key: shop.key) { client in
                    let source = ImportSource(firstLine: 1) {
                        let bytes = try begin()
                        guard !bytes.isEmpty else { throw CommandFailure("the disk is gone") }
                        return bytes
                    }
                    _ = try await ImportRun(
                        client: client, app: "shop", source: source, maximumAttempts: 3, pause: { _ in Issue.record("it tried again") },
                        onFailure: { _ in }, onProgress: { _, _ in }
                    ).run()
                }
            }
            #expect(error == CommandFailure("the disk is gone"))
        }
    }

    @Test("The commands move an app from file to file") func fileToFile() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let key = try TemporaryFile(try #require(shop.key))
            let input = try TemporaryFile((1...700).map { importLine($0) }.joined(separator: "\n") + "\n{\n")
            let (errors, output) = (try TemporaryFile(""), try TemporaryFile(""))
            defer { for file in [key, input, errors, output] { file.remove() } }
            let connection = ["--url", "http://127.0.0.1:\(shop.port)", "--key-file", key.path]
            var command = try ImportCommand.parse(
                ["shop", input.path, "--errors", errors.path, "--from-line", "2"] + connection)
            await #expect(throws: (any Error).self) { try await command.run() }
            let failures = try String(contentsOfFile: errors.path, encoding: .utf8)
            #expect(failures.hasPrefix(#"{"line":701,"id":null,"error":{"code":"malformed_json""#))
            let export = try ExportCommand.parse(["shop", "-o", output.path] + connection)
            try await export.run()
            let exported = try String(contentsOfFile: output.path, encoding: .utf8).split(separator: "\n").map(String.init)
            #expect(exported == (try await shop.export()).texts.dropLast())
            #expect(exported.count == 699)
            let mode = try FileManager.default.attributesOfItem(atPath: output.path)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            command = try ImportCommand.parse(["shop", output.path] + connection)
            try await command.run()
        }
    }
}
