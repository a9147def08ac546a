import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1

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
