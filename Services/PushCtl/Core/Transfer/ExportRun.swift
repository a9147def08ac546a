import PushAPI
import StrictJSON

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
