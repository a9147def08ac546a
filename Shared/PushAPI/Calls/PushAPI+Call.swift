import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
package import StrictJSON

extension PushAPI {
    private static let maximumAnswerBytes = 64 << 20

    /// Calls any route, and repeats the call as ``PushAPI`` says.
    /// - Throws: ``PushAPIError``; `CancellationError` if the task is cancelled.
    public func call(_ call: Call) async throws -> Answer {
        let end = clock.now() + deadline
        var attempt = 0
        while true {
            attempt += 1
            do {
                return try await once(call, within: min(attemptTimeout, end - clock.now())).accepted()
            } catch let error as PushAPIError {
                guard let pause = Backoff.pause(after: error, of: call, attempt: attempt), clock.now() + pause < end else { throw error }
                try await clock.sleep(pause)
            }
        }
    }

    /// One attempt. Every status is an answer.
    /// - Parameter limit: Nil: ``attemptTimeout``.
    /// - Throws: ``PushAPIError/lostConnection(_:)``; ``PushAPIError/unreadable(_:)`` for a ``baseURL`` with an impossible port;
    ///   `CancellationError` if the task is cancelled.
    public func once(_ call: Call, within limit: Duration? = nil) async throws -> Answer {
        let limit = limit ?? attemptTimeout
        var request = try request(call, type: call.json == nil ? nil : "application/json")
        request.body = call.json.map { .bytes($0) }
        do {
            return try await Self.within(limit) { [http, request] in
                let response = try await http.execute(request, deadline: .distantFuture)
                let body = try await response.body.collect(upTo: Self.maximumAnswerBytes)
                return Answer(response, body: Array(body.readableBytesView), to: call)
            }
        } catch { throw try lost(call, "no answer", error) }
    }

    /// - Throws: `CancellationError`
    func lost(_ call: Call, _ what: String, _ error: any Error) throws -> PushAPIError {
        try Task.checkCancellation()
        let words = call.shownPath.map { "\(call.method.rawValue) \($0) at \(baseURL)" } ?? "\(call.method.rawValue) \(baseURL)\(call.path)"
        return .lostConnection("\(words): \(what) (\(error))")
    }

    /// A request with the key and, if it has a body, the body's type.
    /// - Throws: ``PushAPIError/unreadable(_:)``
    func request(_ call: Call, type: String?) throws -> HTTPClientRequest {
        // With some of these the HTTP client would end the process.
        if let fault { throw PushAPIError.unreadable("\(baseURL) \(fault)") }
        var request = HTTPClientRequest(url: baseURL + call.target)
        request.method = HTTPMethod(rawValue: call.method.rawValue)
        if let key { request.headers.add(name: "authorization", value: "Bearer \(key)") }
        if let type { request.headers.add(name: "content-type", value: type) }
        for (name, value) in call.headers { request.headers.add(name: name, value: value) }
        return request
    }

    /// The HTTP client's own limit ends with the head of the answer.
    private static func within<Result: Sendable>(
        _ limit: Duration, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        try await withThrowingTaskGroup(of: Result.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await body() }
            group.addTask {
                try await Task.sleep(for: limit)
                throw TimeIsOver(limit: limit)
            }
            guard let result = try await group.next() else { throw TimeIsOver(limit: limit) }
            return result
        }
    }
}

extension PushAPI.Answer {
    init(_ response: HTTPClientResponse, body: [UInt8], to call: PushAPI.Call) {
        status = Int(response.status.code)
        headers = Dictionary(response.headers.map { ($0.name.lowercased(), $0.value) }) { first, _ in first }
        self.body = body
        self.call = call.description
    }
}

private struct TimeIsOver: Error, CustomStringConvertible {
    let limit: Duration

    var description: String { "\(limit) are over" }
}

/// How long a caller waits before the next attempt.
package enum Backoff {
    /// - Parameter attempt: How many attempts there were.
    /// - Returns: A pause of at least half a bound, which begins with half a second and doubles up to ten.
    package static func pause(attempt: Int) -> Duration {
        .milliseconds(min(10_000, 250 << min(attempt, 6))) * Double.random(in: 0.5...1)
    }

    package static func wait(attempt: Int) async throws { try await Task.sleep(for: pause(attempt: attempt)) }

    /// - Returns: Nil if the call is not to be repeated.
    static func pause(after error: PushAPIError, of call: PushAPI.Call, attempt: Int) -> Duration? {
        guard case .refused(let problem) = error else { return error.isTemporary && call.isRepeatable ? pause(attempt: attempt) : nil }
        // 429 comes before the service does anything. After another refusal a commit may be in doubt.
        guard problem.status == 429 || problem.isTemporary && call.isRepeatable else { return nil }
        return (problem.retryAfter ?? .zero) + pause(attempt: attempt)
    }
}

/// The time of a call; a test has its own.
struct CallClock: Sendable {
    let now: @Sendable () -> ContinuousClock.Instant
    let sleep: @Sendable (Duration) async throws -> Void

    static let continuous = CallClock(now: { .now }, sleep: { try await Task.sleep(for: $0) })
}

extension PushAPI {
    /// A refusal, as the service explains it in a problem document (RFC 9457).
    public struct Problem: Sendable, Hashable, CustomStringConvertible {
        /// A fault in the body of the call.
        public struct Fault: Sendable, Hashable {
            /// A JSON pointer (RFC 6901) into the body.
            public let pointer: String
            /// The code, for programs.
            public let code: String
            /// The fault in words for people.
            public let detail: String
        }

        /// Method and path; nil for an item of a batch.
        public let call: String?
        public let status: Int
        /// The code for programs, as `owner_mismatch`; nil if the answer is no problem document, as one of a proxy.
        public let code: String?
        /// The words for people. They never show a token or a key.
        public let detail: String?
        public let errors: [Fault]
        /// Whether the same call may succeed later.
        public let isTemporary: Bool
        /// How long the service asks to wait.
        public let retryAfter: Duration?

        package init(status: Int, _ document: JSONValue?, call: String? = nil, retryAfter: Duration? = nil) {
            self.call = call
            self.status = status
            code = document?["code"]?.stringValue
            detail = document?["detail"]?.stringValue ?? document?["title"]?.stringValue
            errors = (document?["errors"]?.arrayValue ?? []).map { fault in
                Fault(
                    pointer: fault["pointer"]?.stringValue ?? "?", code: fault["code"]?.stringValue ?? "?",
                    detail: fault["detail"]?.stringValue ?? "?")
            }
            isTemporary = status == 429 || status >= 500 || document?["retryable"]?.boolValue == true
            self.retryAfter = retryAfter
        }

        public var description: String { call.map { "\($0) was refused: \(explanation)" } ?? explanation }

        /// The document in one line.
        package var explanation: String {
            guard let code else { return "status \(status)" }
            let faults = errors.map { "\($0.pointer): \($0.detail)" }
            return (["\(status) \(code)", detail ?? "no explanation"] + faults).joined(separator: "; ")
        }
    }
}
