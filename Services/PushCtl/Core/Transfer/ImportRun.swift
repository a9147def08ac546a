import PushAPI
import StrictJSON

/// One import, through as many connections as it takes.
struct ImportRun {
    let client: PushAPI
    let app: String
    let source: ImportSource
    /// Attempts in a row without progress, before it is given up.
    let maximumAttempts: Int
    let pause: @Sendable (_ attempt: Int) async throws -> Void
    /// Gets each line that the server refused or warned of, as the server reported it.
    let onFailure: @Sendable (ArraySlice<UInt8>) throws -> Void
    /// Gets the counts, and how many bytes of the file are done.
    let onProgress: @Sendable (_ counts: ImportCounts, _ bytes: Int) -> Void

    /// - Returns: The counts, when the server has confirmed the last line.
    /// - Throws: ``CommandFailure``, which names the line to resume from.
    func run() async throws -> ImportCounts {
        let result: Result<ImportCounts, any Error>
        do { result = .success(try await connections()) } catch { result = .failure(error) }
        await source.stop()
        return try result.get()
    }

    private func connections() async throws -> ImportCounts {
        var before = ImportCounts(through: await source.through)
        var attempts = 0
        while true {
            let start = before.through
            do {
                if try await once(&before) { return before }
                throw PushAPIError.lostConnection("the answer ended early")
            } catch let lost as PushAPIError where lost.isTemporary {
                if let failure = await source.failure { throw failure }
                attempts = before.through > start ? 1 : attempts + 1
                guard attempts < maximumAttempts else {
                    throw CommandFailure("given up after \(attempts) attempts: \(lost); go on with --from-line \(before.through + 1)")
                }
                try await pause(attempts)
            }
        }
    }

    /// One connection. - Returns: whether the import is complete.
    private func once(_ counts: inout ImportCounts) async throws -> Bool {
        let base = counts
        var isDone = false
        // Reported when their chunk is committed: a chunk that is sent again reports them again.
        var failures: [ArraySlice<UInt8>] = []
        let body = await source.begin()
        let call = PushAPI.Call(.post, "/v1/apps/\(app.percentEncoded)/import", query: [("from_line", "\(base.through + 1)")])
        try await client.lines(call, sending: body) { bytes in
            let line: JSONValue
            do { line = try JSONValue.parse(Array(bytes)) } catch { throw PushAPIError.lostConnection("the answer is not an import's") }
            if line["line"] != nil { return failures.append(ArraySlice(Array(bytes))) }
            if let through = line["through"]?.integerValue.map(Int.init), through > counts.through {
                counts = base.adding(line, through: through)
                try failures.forEach(onFailure)
                failures = []
                onProgress(counts, await source.confirm(through: through))
            }
            if let error = line["error"] { throw PushAPIError.lostConnection(error["detail"]?.stringValue ?? "the server could not go on") }
            isDone = line["done"]?.boolValue == true
        }
        // A server that missed the rest of the request would report success too early.
        let (isAtEnd, owes) = (await source.isAtEnd, await source.owes)
        return isDone && isAtEnd && !owes
    }
}

struct ImportCounts: Equatable, Sendable {
    /// The last line that is committed.
    var through: Int
    var created = 0
    var updated = 0
    var failed = 0
    /// Registered lines that have warnings.
    var doubtful = 0

    init(through: Int) { self.through = through }

    fileprivate func adding(_ counts: JSONValue, through: Int) -> ImportCounts {
        var sum = self
        sum.through = through
        sum.created += Int(counts["created"]?.integerValue ?? 0)
        sum.updated += Int(counts["updated"]?.integerValue ?? 0)
        sum.failed += Int(counts["failed"]?.integerValue ?? 0)
        sum.doubtful += Int(counts["doubtful"]?.integerValue ?? 0)
        return sum
    }
}
