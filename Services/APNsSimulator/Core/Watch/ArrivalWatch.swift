import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Observability
import StrictJSON
import SystemIO

/// Follows the arrivals at a running simulator over its control API: `apns-simulator watch`.
package struct ArrivalWatch: Sendable {
    /// Why it cannot follow: one sentence.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// One arrival, as a terminal shows it.
    package struct Line: Sendable, Equatable {
        package let token: String
        package let text: String
    }

    private static let maximumBytes = 1 << 24

    private let base: String
    private let patience: Int

    /// - Parameters:
    ///   - url: Of the control API.
    ///   - patience: Seconds that one request waits for an arrival.
    package init(url: String, patience: Int = 60) {
        base = url.hasSuffix("/") ? String(url.dropLast()) : url
        self.patience = patience
    }

    /// Hands over arrivals from now on, until `body` returns false or the task is cancelled.
    /// - Parameter fromStart: Whether the earlier arrivals that the simulator still has come first.
    package func follow(fromStart: Bool = false, _ body: (Line) async throws -> Bool) async throws {
        let expected = "is not the URL of a control API: one begins with http://, as http://127.0.0.1:2199 does"
        let url: SettingURL
        do throws(SettingURL.Fault) { url = try SettingURL.parse(base) } catch {
            throw Failure(description: "\(base) \(expected); it \(error)")
        }
        guard ["http", "https"].contains(url.scheme) else { throw Failure(description: "\(base) \(expected)") }
        var configuration = HTTPClient.Configuration()
        // If no server listens, that is reported now and not when the wait is over.
        configuration.connectionPool.retryConnectionEstablishment = false
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await follow(client, fromStart: fromStart, body))
        } catch {
            outcome = .failure(error)
        }
        try await client.shutdown()
        try outcome.get()
    }

    private func follow(_ client: HTTPClient, fromStart: Bool, _ body: (Line) async throws -> Bool) async throws {
        var last = fromStart ? 0 : try await read("?limit=1", client)["last_sequence"]?.integerValue ?? 0
        while true {
            let page = try await read("?after=\(last)&wait_count=1&timeout_seconds=\(patience)", client)
            for arrival in page["arrivals"]?.arrayValue ?? [] {
                last = max(last, arrival["sequence"]?.integerValue ?? 0)
                guard arrival["kind"]?.stringValue != Reception.device.rawValue || arrival["activity_result"] != nil else { continue }
                guard try await body(Self.line(arrival)) else { return }
            }
        }
    }

    private func read(_ query: String, _ client: HTTPClient) async throws -> JSONValue {
        let response: HTTPClientResponse
        do {
            response = try await client.execute(
                HTTPClientRequest(url: base + "/v1/arrivals" + query), timeout: .seconds(Int64(patience) + 15))
        } catch is CancellationError {
            throw CancellationError()
        } catch let error as IOError {
            throw Failure(description: "No simulator answers at \(base): \(SystemError(operation: "connect", code: error.errnoCode))")
        } catch {
            throw Failure(description: "No simulator answers at \(base): \(error)")
        }
        guard response.status.code == 200 else {
            throw Failure(description: "\(base) answered \(response.status.code): it is not a simulator's control API")
        }
        let bytes = Array(try await response.body.collect(upTo: Self.maximumBytes).readableBytesView)
        return try JSONValue.parse(bytes, maximumBytes: Self.maximumBytes)
    }

    /// `08:49:13.120  shown   Ada's phone  com.example.shop  Hello: World (badge 2)`
    private static func line(_ arrival: JSONValue) -> Line {
        let token = arrival["token"]?.stringValue ?? ""
        let time = arrival["time"]?.stringValue.map { $0.dropFirst(11).dropLast() } ?? ""
        let words = ["title", "subtitle", "body"].compactMap { arrival[$0]?.stringValue }
        var text = words.joined(separator: ": ")
        if let badge = arrival["badge"]?.integerValue { text += " (badge \(badge))" }
        if let activity = arrival["activity"] {
            text += " [\(activity["event"]?.stringValue ?? "") \(activity["content_state"]?.stringValue ?? "")]"
        }
        if let result = arrival["activity_result"]?.stringValue {
            let id = arrival["activity_id"]?.stringValue
            text += (text.isEmpty ? "" : " ") + (id.map { $0 + ": " } ?? "") + result.replacing("_", with: " ")
        }
        let kind = arrival["kind"]?.stringValue ?? ""
        let columns = [
            String(time), kind + String(repeating: " ", count: max(0, 8 - kind.count)),
            arrival["name"]?.stringValue ?? "…" + token.suffix(6), arrival["topic"]?.stringValue ?? "", text,
        ]
        return Line(token: token, text: printable(columns.joined(separator: "  ")))
    }

    /// A notification must not steer the terminal that shows it.
    private static func printable(_ text: String) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            let isControl = scalar.properties.generalCategory == .control || scalar.properties.generalCategory == .format
            result.append(isControl ? "·" : scalar)
        }
        return String(result)
    }
}
