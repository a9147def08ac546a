import NIOCore
import NIOHTTP1
import StrictJSON

/// One export, through as many connections as it takes.
struct ExportRun {
    let client: APIClient
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
                throw LostConnection("the answer ended early")
            } catch let lost as LostConnection {
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
        let query = last.map { "?after=\($0.percentEncoded)" } ?? ""
        try await client.lines(.GET, "/v1/apps/\(app.percentEncoded)/export\(query)", body: ImportSource.Lines?.none) { bytes in
            let line: JSONValue
            do { line = try JSONValue.parse(Array(bytes)) } catch { throw LostConnection("the answer is not an export's") }
            if let error = line["error"] { throw LostConnection(error["detail"]?.stringValue ?? "the server could not go on") }
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
