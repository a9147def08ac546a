import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import PushAPI
import StrictJSON
import Synchronization

/// Clients that send one notification after another and repeat refused ones until they are accepted, as a product service should.
final class SteadyLoad: Sendable {
    private static let clients = 4

    struct Record: Sendable {
        /// The status of every answer.
        var statuses: [Int: Int] = [:]
        /// A notification's id by its `Idempotency-Key`.
        var accepted: [String: String] = [:]
        var refusalsWithoutRetryAfter = 0
        /// The errors of requests without an answer.
        var unanswered: [String] = []
        var isStopping = false
    }

    private let url: String
    private let key: String
    private let user: String
    private let state = Mutex(Record())

    /// - Parameter user: The recipient of every notification.
    init(_ client: Client, user: String) {
        url = client.service.baseURL + "/v1/apps/\(Client.app)/notifications"
        key = client.service.key ?? ""
        self.user = user
    }

    var record: Record { state.withLock { $0 } }

    /// Sends while `body` runs. Returns when everything that was begun is accepted.
    func run(_ body: () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<Self.clients { group.addTask { try await self.send(client: number) } }
            let result: Result<Void, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            state.withLock { $0.isStopping = true }
            if case .failure = result { group.cancelAll() }
            try result.get()
            try await group.waitForAll()
        }
    }

    private func send(client: Int) async throws {
        var number = 0
        while !record.isStopping {
            number += 1
            let key = "client-\(client)-\(number)"
            while try await !post(key) { try await Task.sleep(for: .milliseconds(20)) }  // a refused client waits a moment
        }
    }

    /// - Returns: whether it was accepted.
    private func post(_ idempotencyKey: String) async throws -> Bool {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "authorization", value: "Bearer \(key)")
        request.headers.add(name: "content-type", value: "application/json")
        request.headers.add(name: "idempotency-key", value: idempotencyKey)
        request.body = .bytes(Array(#"{"to":{"user":"\#(user)"},"payload":{"aps":{"alert":"\#(idempotencyKey)"}}}"#.utf8))
        do {
            let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
            let body = Array(try await response.body.collect(upTo: 1 << 20).readableBytesView)
            let id = try JSONValue.parse(body)["id"]?.stringValue
            state.withLock { state in
                state.statuses[Int(response.status.code), default: 0] += 1
                if response.status.code == 202 { state.accepted[idempotencyKey] = id ?? "" }
                if response.status.code == 503, !response.headers.contains(name: "retry-after") { state.refusalsWithoutRetryAfter += 1 }
            }
            return response.status.code == 202
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            try Task.checkCancellation()
            state.withLock { $0.unanswered.append("\(idempotencyKey): \(error)") }
            return false
        }
    }
}
