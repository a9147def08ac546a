import Foundation
import TestDevice
import Testing

@testable import PushClient

#if canImport(CryptoKit)
    import CryptoKit
#else
    import Crypto
#endif

@Suite struct ServiceExtensionTests {
    struct Fault: Error {}

    struct Step: NotificationStep {
        var body: @Sendable (NotificationContent) async throws -> NotificationContent

        init(_ body: @escaping @Sendable (NotificationContent) async throws -> NotificationContent) {
            self.body = body
        }

        func improve(_ content: NotificationContent) async throws -> NotificationContent { try await body(content) }
    }

    /// Collects deliveries, and lets a test wait for the first.
    final class Screen: Sendable {
        private let state = Guarded((shown: [NotificationContent](), watchers: [CheckedContinuation<Void, Never>]()))

        var shown: [NotificationContent] { state.withLock { $0.shown } }

        func show(_ content: NotificationContent) {
            let watchers = state.withLock { state in
                state.shown.append(content)
                defer { state.watchers = [] }
                return state.watchers
            }
            for watcher in watchers { watcher.resume() }
        }

        func first() async -> NotificationContent? {
            await withCheckedContinuation { continuation in
                let isThere = state.withLock { state in
                    guard state.shown.isEmpty else { return true }
                    state.watchers.append(continuation)
                    return false
                }
                if isThere { continuation.resume() }
            }
            return shown.first
        }
    }

    private func content(_ json: String = #"{"aps":{}}"#) throws -> NotificationContent {
        NotificationContent(try PushNotification(json: Data(json.utf8)), title: "You have a message")
    }

    private static let hung = Step { content in
        await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
        return content
    }

    private static func titled(_ title: String) -> Step {
        Step { content in
            var better = content
            better.title = title
            return better
        }
    }

    @Test func everyStepImprovesAndAFaultDoesNoHarm() async throws {
        let screen = Screen()
        let work = ServiceExtensionWork(try content(), deliver: screen.show)
        let subtitle = Step { content in
            var better = content
            better.subtitle = "after \(content.title)"
            return better
        }
        work.begin([Self.titled("one"), Step { _ in throw Fault() }, subtitle], clock: TestClock())
        let shown = await screen.first()
        #expect(shown?.title == "one" && shown?.subtitle == "after one")
    }

    @Test func theBudgetDeliversTheBestSoFar() async throws {
        let (screen, clock) = (Screen(), TestClock())
        let work = ServiceExtensionWork(try content(), deliver: screen.show)
        let reached = AsyncStream<Void>.makeStream()
        work.begin(
            [
                Self.titled("one"),
                Step { content in
                    reached.continuation.yield()
                    return try await Self.hung.improve(content)
                }, Self.titled("two"),
            ], clock: clock)
        for await _ in reached.stream { break }
        await clock.sleepers(1)
        #expect(clock.remaining == [.seconds(25)])
        clock.advance(by: .seconds(3_600))
        #expect(await screen.first()?.title == "one")
    }

    @Test func aDeliveryEndsWhatIsStillAtWork() async throws {
        let (screen, clock) = (Screen(), TestClock())
        let ended = AsyncStream<Bool>.makeStream()
        let work = ServiceExtensionWork(try content(), deliver: screen.show)
        work.begin(
            [
                Step { content in
                    try? await clock.sleep(for: .seconds(3_600))
                    ended.continuation.yield(Task.isCancelled)
                    var late = content
                    late.title = "late"
                    return late
                }, Self.titled("later"),
            ], clock: clock)
        await clock.sleepers(2)
        work.deliver()
        for await wasCancelled in ended.stream {
            #expect(wasCancelled)
            break
        }
        #expect(screen.shown.map(\.title) == ["You have a message"])
    }

    /// The three steps of the guide in its order, on a payload in which the first two cannot do their work.
    @Test func aStepThatCannotDoItsWorkLeavesTheOthersTheirs() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("push-client-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let (screen, delivery) = (Screen(), UUID().uuidString.lowercased())
        let original = try content(
            #"""
            {"aps":{},"push":{"sealed":{"v":1,"key":"gone","box":""},"attachments":["ftp://x"]},\#
            "push-receipt":{"notification":"\#(delivery)","job":0}}
            """#
        )
        let work = ServiceExtensionWork(original, deliver: screen.show)
        work.begin(
            [
                DecryptionStep { _ in nil }, AttachmentStep(source: Files(contentType: "image/png", bytes: 1)),
                ReceiptStep(folder: ReceiptFolder(folder: folder), clock: TestClock()),
            ], clock: TestClock())
        #expect(await screen.first() == original)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).count == 1)
    }

    @Test func theSystemsLastCallDeliversOnce() async throws {
        let (screen, clock) = (Screen(), TestClock())
        let work = ServiceExtensionWork(try content(), deliver: screen.show)
        work.begin([Self.hung], clock: clock)
        await clock.sleepers(1)
        work.deliver()
        work.deliver()
        clock.advance(by: .seconds(25))
        #expect(screen.shown.map(\.title) == ["You have a message"])
    }

    // MARK: Attachments

    /// An answer of this length, in parts of 1 MB.
    struct Files: AttachmentSource {
        var contentType: String
        var bytes: Int
        var statesLength = true
        /// Called with each part's size before it is written.
        var fetched: @Sendable (Int) -> Void = { _ in }

        func download(_ url: URL, into file: AttachmentFile) async throws {
            try file.begin(contentType: contentType, length: statesLength ? Int64(bytes) : -1)
            var rest = bytes
            while rest > 0 {
                let part = min(rest, 1 << 20)
                fetched(part)
                try file.append(Data(count: part))
                rest -= part
            }
        }
    }

    @Test(
        arguments: [
            ("image/jpeg", 10 << 20, "jpg"), ("image/png; q=1", 1, "png"), ("video/mp4", 50 << 20, "mp4"), ("audio/mpeg", 5 << 20, "mp3"),
            ("image/jpeg", (10 << 20) + 1, nil), ("audio/mpeg", (5 << 20) + 1, nil), ("video/mp4", (50 << 20) + 1, nil),
            ("text/html", 1, nil),
        ] as [(String, Int, String?)])
    func attachmentsHaveLimits(contentType: String, bytes: Int, fileExtension: String?) async throws {
        let original = try content(#"{"aps":{},"push":{"attachments":["https://example.com/picture"]}}"#)
        let step = AttachmentStep(source: Files(contentType: contentType, bytes: bytes))
        guard let fileExtension else {
            await #expect(throws: AttachmentStep.Refused.self) { try await step.improve(original) }
            return
        }
        let better = try await step.improve(original)
        let file = try #require(better.attachments.first?.file)
        #expect(file.pathExtension == fileExtension)
        try FileManager.default.removeItem(at: file)
    }

    @Test(arguments: [true, false]) func whatIsTooLargeIsNotFetched(statesLength: Bool) async throws {
        let original = try content(#"{"aps":{},"push":{"attachments":["https://example.com/song"]}}"#)
        let fetched = Guarded(0)
        let song = Files(contentType: "audio/mpeg", bytes: 1 << 30, statesLength: statesLength) { part in fetched.withLock { $0 += part } }
        await #expect(throws: AttachmentStep.Refused.self) { try await AttachmentStep(source: song).improve(original) }
        // With a stated length nothing; without one, the part that exceeds the limit is the last.
        #expect(fetched.withLock { $0 } == (statesLength ? 0 : 6 << 20))
    }

    /// Answers by the last part of the address, and remembers what it has made.
    final class Shelf: AttachmentSource {
        private let files = Guarded([URL]())

        var left: [URL] { files.withLock { $0.filter { FileManager.default.fileExists(atPath: $0.path) } } }

        func download(_ url: URL, into file: AttachmentFile) async throws {
            guard url.lastPathComponent != "gone" else { throw URLError(.badServerResponse) }
            try file.begin(contentType: url.lastPathComponent == "page" ? "text/html" : "image/png", length: 1)
            if let url = file.url { files.withLock { $0.append(url) } }
            // It breaks off in the middle.
            guard url.lastPathComponent != "half" else { throw URLError(.networkConnectionLost) }
            try file.append(Data([1]))
        }
    }

    @Test func theFirstThatTheSystemShowsIsAttached() async throws {
        let names = ["gone", "page", "half", "picture", "another"]
        let list = names.map { #""https://example.com/\#($0)""# }.joined(separator: ",")
        let shelf = Shelf()
        let better = try await AttachmentStep(source: shelf).improve(content(#"{"aps":{},"push":{"attachments":[\#(list)]}}"#))
        #expect(better.attachments.map(\.identifier) == ["https://example.com/picture"])
        let file = try #require(better.attachments.first?.file)
        #expect(FileManager.default.fileExists(atPath: file.path))
        // The file that broke off is gone.
        #expect(shelf.left == [file])
        try FileManager.default.removeItem(at: file)
    }

    @Test func onlyHTTPSIsFetched() async throws {
        let step = AttachmentStep(source: Files(contentType: "image/png", bytes: 1))
        for address in ["http://example.com/a", "file:///etc/passwd"] {
            let original = try content(#"{"aps":{},"push":{"attachments":["\#(address)"]}}"#)
            await #expect(throws: AttachmentStep.Refused.self) { try await step.improve(original) }
        }
    }

    // MARK: Sealed texts

    private let key = SymmetricKey(data: Data(repeating: 7, count: 32))

    private func sealed(_ name: String, _ texts: SealedContent.Texts) throws -> NotificationContent {
        let box = try JSONEncoder().encode(SealedContent(sealing: texts, key: name, with: key))
        return try content(#"{"aps":{},"push":{"sealed":\#(String(decoding: box, as: UTF8.self))}}"#)
    }

    @Test func sealedTextsAreOpened() async throws {
        let original = try sealed("k1", SealedContent.Texts(title: "From Ada", body: "See you at eight"))
        let better = try await DecryptionStep { [key] name in name == "k1" ? key : nil }.improve(original)
        #expect(better.title == "From Ada" && better.body == "See you at eight")
    }

    @Test func everyTextMayBeSealedAndTheOthersStay() async throws {
        let all = SealedContent.Texts(title: "T", subtitle: "S", body: "B", category: "C", threadID: "I")
        let better = try await DecryptionStep { [key] _ in key }.improve(sealed("k1", all))
        #expect([better.title, better.subtitle, better.body, better.category, better.threadID] == ["T", "S", "B", "C", "I"])
        let some = try await DecryptionStep { [key] _ in key }.improve(sealed("k1", SealedContent.Texts(body: "B")))
        #expect(some.title == "You have a message" && some.body == "B")
    }

    @Test func aLaterVersionIsNotOpened() throws {
        var sealed = try SealedContent(sealing: SealedContent.Texts(title: "x"), key: "k1", with: key)
        sealed.v = 2
        #expect(throws: SealedContent.UnknownVersion(version: 2)) { try sealed.open(with: key) }
    }

    @Test(arguments: [0, 11, 12, 27, 28]) func aBoxThatIsTooShortIsAFault(bytes: Int) throws {
        var sealed = try SealedContent(sealing: SealedContent.Texts(title: "x"), key: "k1", with: key)
        sealed.box = sealed.box.prefix(bytes)
        #expect(throws: (any Error).self) { try sealed.open(with: key) }
    }

    @Test func whatCannotBeOpenedStaysGeneral() async throws {
        let original = try sealed("k1", SealedContent.Texts(title: "From Ada"))
        await #expect(throws: DecryptionStep.Failure.unknownKey("k1")) { try await DecryptionStep { _ in nil }.improve(original) }
        await #expect(throws: (any Error).self) {
            try await DecryptionStep { _ in SymmetricKey(data: Data(repeating: 8, count: 32)) }.improve(original)
        }
        await #expect(throws: DecryptionStep.Failure.nothingSealed) { try await DecryptionStep { _ in nil }.improve(content()) }
    }

    @Test func theNameOfTheKeyIsSealedToo() throws {
        var sealed = try SealedContent(sealing: SealedContent.Texts(title: "x"), key: "k1", with: key)
        sealed.key = "k2"
        #expect(throws: (any Error).self) { try sealed.open(with: key) }
    }

    /// Made with Python's cryptography: key 32 bytes of 07, nonce 12 bytes of 01, the plain text {"title":"Hi"}.
    @Test func aServerInAnotherLanguageSealsTheSame() throws {
        let json = Data(#"{"v":1,"key":"k1","box":"AQEBAQEBAQEBAQEBDcP93uTTiSzr9pRIUkoK8VbsleBlanYlTbhNnQ8p"}"#.utf8)
        let texts = try JSONDecoder().decode(SealedContent.self, from: json).open(with: key)
        #expect(texts == SealedContent.Texts(title: "Hi"))
    }

    @Test func anExtensionLeavesItsReceipt() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("push-client-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let notification = UUID()
        let step = ReceiptStep(folder: ReceiptFolder(folder: folder), clock: TestClock())
        _ = try await step.improve(content(#"{"aps":{},"push-receipt":{"notification":"\#(notification.uuidString)","job":3}}"#))
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["\(notification.uuidString.lowercased()).3.shown.json"])
    }
}
