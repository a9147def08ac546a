import Dispatch
import NIOCore
import PushAPI
import StrictJSON
import Synchronization

/// The lines of an import: sent in order, kept until the server reports them as committed, and sent again after a lost connection.
///
/// That works for a pipe too, which cannot be read twice. The kept lines are bounded: reading waits for the server.
actor ImportSource {
    static let maximumUnconfirmedBytes = 8 << 20

    private let file: FileReader
    private var kept: [LineBlock] = []
    private var keptBytes = 0
    private var passedBytes = 0
    /// Index in `kept` of the line that is sent next.
    private var cursor = 0
    private var attempt = 0
    private var reading: Task<Bool, any Error>?
    private var waiting: CheckedContinuation<Void, Never>?
    private(set) var isAtEnd = false
    /// Why the file cannot be read; a connection that sends it reports the failure as its own.
    private(set) var failure: (any Error)?
    nonisolated let firstLine: Int
    /// The last line that is committed, or that the caller has skipped.
    private(set) var through: Int

    /// - Parameters:
    ///   - firstLine: Lines before this one are read and passed over.
    ///   - read: The file's next bytes; none at its end. Runs on a thread of its own, one call at a time.
    init(firstLine: Int, read: @escaping @Sendable () throws -> [UInt8]) {
        self.firstLine = firstLine
        through = firstLine - 1
        file = FileReader(read)
    }

    /// Whether a line was read and is not confirmed.
    var owes: Bool { !kept.isEmpty }

    /// Begins again with the first line that is not confirmed. An earlier attempt gets no more lines.
    func begin() -> Lines {
        attempt += 1
        cursor = 0
        release()
        return Lines(source: self, attempt: attempt)
    }

    /// Nothing more is sent.
    func stop() {
        attempt += 1
        release()
    }

    /// Lines up to this one are committed.
    /// - Returns: How many bytes of the file are done.
    @discardableResult
    func confirm(through line: Int) -> Int {
        while let first = kept.first, first.firstLine <= line {
            keptBytes -= first.bytes.readableBytes
            passedBytes += first.bytes.readableBytes
            if first.lastLine <= line {
                kept.removeFirst()
                cursor = max(0, cursor - 1)
            } else {
                kept[0] = first.dropping(through: line)
                keptBytes += kept[0].bytes.readableBytes
                passedBytes -= kept[0].bytes.readableBytes
            }
        }
        through = max(through, line)
        release()
        return passedBytes
    }

    fileprivate func next(attempt: Int) async throws -> ByteBuffer? {
        while attempt == self.attempt {
            if cursor < kept.count {
                defer { cursor += 1 }
                return kept[cursor].bytes
            }
            if keptBytes >= Self.maximumUnconfirmedBytes {
                await withCheckedContinuation { waiting = $0 }
            } else if !(try await readMore()) {
                return nil
            }
        }
        return nil
    }

    private func release() {
        waiting?.resume()
        waiting = nil
    }

    /// One reading at a time, also if two attempts need more.
    private func readMore() async throws -> Bool {
        if let reading { return try await reading.value }
        // It ends itself: waiting callers may be resumed in any order, and must not find it again, or a caller would loop for ever.
        let task = Task {
            defer { reading = nil }
            return try await readBlock()
        }
        reading = task
        return try await task.value
    }

    private func readBlock() async throws -> Bool {
        while let block = try await nextBlock() {
            let wanted = block.firstLine > through ? block : block.dropping(through: min(through, block.lastLine))
            passedBytes += block.bytes.readableBytes - wanted.bytes.readableBytes
            guard wanted.lineCount > 0 else { continue }
            kept.append(wanted)
            keptBytes += wanted.bytes.readableBytes
            return true
        }
        isAtEnd = true
        return false
    }

    private func nextBlock() async throws -> LineBlock? {
        do { return try await file.next() } catch {
            failure = error
            throw error
        }
    }

    /// One attempt's request body.
    struct Lines: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let source: ImportSource
        let attempt: Int

        func makeAsyncIterator() -> Lines { self }
        func next() async throws -> ByteBuffer? { try await source.next(attempt: attempt) }
        func next(isolation actor: isolated (any Actor)?) async throws(any Error) -> ByteBuffer? { try await source.next(attempt: attempt) }
    }
}

/// Reads on a thread that may block.
private final class FileReader: Sendable {
    private let blocks: Mutex<LineBlocks>
    private let queue = DispatchQueue(label: "pushctl.import.file")

    init(_ read: @escaping @Sendable () throws -> [UInt8]) { blocks = Mutex(LineBlocks(read: read)) }

    func next() async throws -> LineBlock? {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result { try self.blocks.withLock { try $0.next() } }) }
        }
    }
}

/// One export, through as many connections as it takes.
struct ExportRun {
    let client: PushAPI
    let app: String
    let maximumAttempts: Int
    let pause: @Sendable (_ attempt: Int) async throws -> Void
    /// Each installation's line, without its line feed.
    let onLine: @Sendable (ArraySlice<UInt8>) throws -> Void
    let onProgress: @Sendable (_ count: Int) -> Void

    /// - Parameter start: The last id that the file has already.
    /// - Returns: How many lines there were.
    func run(after start: String?) async throws -> Int {
        var last = start
        var count = 0
        var attempts = 0
        while true {
            let before = count
            do {
                if try await once(&last, &count) { return count }
                throw PushAPIError.lostConnection("the answer ended early")
            } catch let lost as PushAPIError where lost.isTemporary {
                attempts = count > before ? 1 : attempts + 1
                guard attempts < maximumAttempts else {
                    throw CommandFailure("given up after \(attempts) attempts: \(lost); go on with --after \(last ?? "(nothing was read)")")
                }
                try await pause(attempts)
            }
        }
    }

    private func once(_ last: inout String?, _ count: inout Int) async throws -> Bool {
        var isDone = false
        let call = PushAPI.Call(.get, "/v1/apps/\(app.percentEncoded)/export", query: [("after", last)])
        try await client.lines(call, sending: ImportSource.Lines?.none) { bytes in
            let line: JSONValue
            do { line = try JSONValue.parse(Array(bytes)) } catch { throw PushAPIError.lostConnection("the answer is not an export's") }
            if let error = line["error"] { throw PushAPIError.lostConnection(error["detail"]?.stringValue ?? "the server could not go on") }
            guard let id = line["id"]?.stringValue else {
                isDone = line["done"]?.boolValue == true
                return
            }
            try onLine(bytes)
            last = id
            count += 1
            if count.isMultiple(of: 1000) { onProgress(count) }
        }
        return isDone
    }
}
