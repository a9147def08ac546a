package import NIOCore
import Postgres
import PushModel
import ServiceLifecycle
import StrictJSON
package import TokenServiceApps
package import TokenServiceKit
package import TokenServiceRegistry

/// `POST /v1/apps/{app}/import`: registers every line of a stream and reports the results while it reads.
///
/// Reading and committing overlap by one chunk, and each waits for the other, so that the memory does not grow with the length. Every line
/// up to `through` is committed or answered with its fault. A stream that ends early, for any reason, ends after a whole chunk.
package struct InstallationImport: Sendable {
    package typealias Register =
        @Sendable ([Registration], App) async -> [Result<InstallationRegistration.Result, any Error>]

    package static let chunk = LineQueue.Limit(lines: 512, bytes: 1 << 20)

    private let register: Register
    /// How long one chunk may wait for the database.
    private let patience: Duration
    private let errors: InternalErrors

    package init(patience: Duration = .seconds(30), errors: InternalErrors, register: @escaping Register) {
        self.register = register
        self.patience = patience
        self.errors = errors
    }

    /// Begins to read. ``Answers/next()`` commits, chunk by chunk; the caller must call ``Answers/end()`` in every case.
    /// - Parameters:
    ///   - firstLine: The number of the first line that comes.
    ///   - onChunk: Gets how many lines are about to be registered.
    package func begin<Bytes: AsyncSequence & Sendable>(
        _ body: Bytes, app: App, firstLine: Int, queue: LineQueue = LineQueue(limit: chunk),
        onChunk: @escaping @Sendable (Int) -> Void = { _ in }
    ) -> Answers where Bytes.Element == ByteBuffer {
        let reader = Task {
            await withGracefulShutdownHandler {
                await Self.read(body, app: app, firstLine: firstLine, into: queue)
            } onGracefulShutdown: {
                queue.finish(.stopped)
            }
        }
        return Answers(
            importing: self, app: app, queue: queue, reader: reader, totals: ImportTotals(through: firstLine - 1), onChunk: onChunk)
    }

    /// The answers to the client, in turn. One owner.
    package struct Answers {
        fileprivate let importing: InstallationImport
        fileprivate let app: App
        fileprivate let queue: LineQueue
        fileprivate let reader: Task<Void, Never>
        fileprivate var totals: ImportTotals
        private let onChunk: @Sendable (Int) -> Void
        private var isOver = false

        fileprivate init(
            importing: InstallationImport, app: App, queue: LineQueue, reader: Task<Void, Never>, totals: ImportTotals,
            onChunk: @escaping @Sendable (Int) -> Void
        ) {
            self.importing = importing
            self.app = app
            self.queue = queue
            self.reader = reader
            self.totals = totals
            self.onChunk = onChunk
        }

        /// Waits for lines, commits them and answers; nil after the last answer.
        package mutating func next() async -> ByteBuffer? {
            guard !isOver else { return nil }
            var report = JSONLines()
            switch await queue.take() {
            case .lines(let lines):
                onChunk(lines.count)
                if let answer = await importing.register(lines, app: app) {
                    totals.add(answer, lines: lines)
                    report.failures(answer)
                    report.warnings(answer)
                    report.progress(totals)
                } else {
                    isOver = true
                    report.broken(InstallationImport.databaseAway, totals)
                }
            case .ended where !Task.isCancelled:
                isOver = true
                report.done(totals)
            case .ended, .cut: return nil
            case .stopped:
                isOver = true
                report.broken(InstallationImport.stopping, totals)
            }
            return report.buffer
        }

        /// The caller wants no more. Returns when reading has ended, at the latest when the client stays silent for too long.
        package func end() async {
            queue.finish(.stopped)
            await reader.value
        }
    }

    private static func read<Bytes: AsyncSequence>(_ body: Bytes, app: App, firstLine: Int, into queue: LineQueue) async
    where Bytes.Element == ByteBuffer {
        var splitter = LineSplitter(maximumBytes: ImportLine.maximumBytes)
        var number = firstLine
        func line(_ line: LineSplitter.Line) -> ImportLine {
            defer { number += 1 }
            return ImportLine(line, number: number, app: app)
        }
        do {
            for try await buffer in body {
                var (rest, lines) = (buffer, [ImportLine]())
                while let text = splitter.next(in: &rest) {
                    lines.append(line(text))
                    // A buffer may hold as many lines as bytes.
                    guard lines.count == chunk.lines else { continue }
                    guard await queue.put(lines) else { return }
                    lines = []
                }
                if !lines.isEmpty, !(await queue.put(lines)) { return }
            }
        } catch {
            // The connection broke inside the body. The incomplete last line does not count.
            return queue.finish(.cut)
        }
        if let last = splitter.finish(), !(await queue.put([line(last)])) { return }
        queue.finish(.ended)
    }

    fileprivate static let databaseAway = BulkFault(
        id: nil, code: "database_unavailable", detail: "the database cannot serve now; go on after the line in through", isRetryable: true)
    fileprivate static let stopping = BulkFault(
        id: nil, code: "stopping", detail: "this process stops; go on after the line in through", isRetryable: true)

    // MARK: One chunk

    /// Registers a chunk's lines, in order, again and again while the database is away.
    /// - Returns: nil when it stayed away.
    fileprivate func register(_ lines: [ImportLine], app: App) async -> ImportAnswer? {
        var wanted: [(line: Int, registration: Registration)] = []
        var answer = ImportAnswer()
        for line in lines {
            switch line.content {
            case .registration(let registration): wanted.append((line.number, registration))
            case .refused(let fault): answer.failures.append((line.number, fault))
            case .nothing: break
            }
        }
        var wait = DatabaseWait(patience: patience)
        var wasNew: Set<Int> = []
        while !wanted.isEmpty {
            let results = await register(wanted.map(\.registration), app)
            // From the first line that could not be tried, all are tried again: two lines for one installation keep their order.
            let firstAway = results.firstIndex { Self.isUnavailable($0) } ?? results.count
            for (item, result) in zip(wanted[firstAway...], results[firstAway...]) {
                if case .success(let success) = result, success.isNew { wasNew.insert(item.line) }
            }
            for (item, result) in zip(wanted[..<firstAway], results[..<firstAway]) {
                switch result {
                case .success(let success):
                    answer.count(isNew: success.isNew || wasNew.contains(item.line))
                    if !success.warnings.isEmpty { answer.warnings.append((item.line, item.registration.installation, success.warnings)) }
                case .failure(let error): answer.failures.append((item.line, fault(item.registration, error)))
                }
            }
            wanted.removeFirst(firstAway)
            guard !wanted.isEmpty else { break }
            guard !wait.isOver else { return nil }
            do { try await wait.pause() } catch { return nil }
        }
        answer.failures.sort { $0.line < $1.line }
        return answer
    }

    private static func isUnavailable(_ result: Result<InstallationRegistration.Result, any Error>) -> Bool {
        switch result {
        case .success: false
        case .failure(let error as PostgresError): error.isUnavailable
        case .failure(let error): error is CancellationError
        }
    }

    private func fault(_ registration: Registration, _ error: any Error) -> BulkFault {
        BulkFault(id: registration.installation, errors.answer(to: error, "A line of an import failed"))
    }
}

/// The counts of an import so far.
package struct ImportTotals: Equatable, Sendable {
    /// The last line that was dealt with.
    package var through: Int
    package var created = 0
    package var updated = 0
    package var failed = 0
    /// How many of the other lines have a part that is doubtful.
    package var doubtful = 0

    package init(through: Int) { self.through = through }

    mutating func add(_ answer: ImportAnswer, lines: [ImportLine]) {
        through = lines.last?.number ?? through
        created += answer.created
        updated += answer.updated
        failed += answer.failures.count
        doubtful += answer.warnings.count
    }
}

/// The result of one chunk.
struct ImportAnswer {
    var created = 0
    var updated = 0
    /// The failures in the lines' order.
    var failures: [(line: Int, fault: BulkFault)] = []
    /// The warnings of lines of which a part is doubtful, in the lines' order.
    var warnings: [(line: Int, id: PushID, warnings: [RegistrationWarning])] = []

    mutating func count(isNew: Bool) {
        if isNew { created += 1 } else { updated += 1 }
    }
}

extension ImportTotals {
    static let fields: [ResponseSchema<ImportTotals>.Field] = [
        .required("through", .count, "The last line that is done with.") { $0.through },
        .required("created", .count) { $0.created },
        .required("updated", .count) { $0.updated },
        .required("failed", .count) { $0.failed },
        .required("doubtful", .count, "Lines that are registered and have warnings.") { $0.doubtful },
    ]
}

/// Cuts a stream of bytes into lines. A line that is too long is skipped, not kept: its rest counts as the same line.
package struct LineSplitter {
    package enum Line: Equatable, Sendable {
        /// A line without its line feed.
        case text([UInt8])
        case tooLong
    }

    private let maximumBytes: Int
    private var partial: [UInt8] = []
    private var isOverlong = false

    package init(maximumBytes: Int) { self.maximumBytes = maximumBytes }

    /// The next line that ends within `buffer`, whose bytes up to there it takes. If none does, it takes all of them, and returns nil.
    package mutating func next(in buffer: inout ByteBuffer) -> Line? {
        let bytes = buffer.readableBytesView
        guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
            take(bytes)
            buffer.moveReaderIndex(forwardBy: bytes.count)
            return nil
        }
        take(bytes[..<end])
        buffer.moveReaderIndex(forwardBy: bytes.distance(from: bytes.startIndex, to: end) + 1)
        return finishedLine()
    }

    /// The last line, where the stream did not end with a line feed.
    package mutating func finish() -> Line? {
        guard isOverlong || !partial.isEmpty else { return nil }
        return finishedLine()
    }

    private mutating func take(_ bytes: ByteBufferView) {
        guard !isOverlong else { return }
        if partial.count + bytes.count > maximumBytes {
            isOverlong = true
            partial = []
        } else {
            partial.append(contentsOf: bytes)
        }
    }

    private mutating func finishedLine() -> Line {
        defer {
            partial = []
            isOverlong = false
        }
        return isOverlong ? .tooLong : .text(partial)
    }
}
