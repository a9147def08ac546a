import Foundation
import StrictJSON

/// Notifications. Sending needs a key with the scope `send`, reading one with `read`.
extension PushAPI.App {
    /// Sends a notification. When this returns, the service has committed it: it is sent whichever process dies next.
    /// - Parameter idempotencyKey: The same key with the same notification sends nothing new, for at least 24 hours. Give one that your
    ///   own records know (`order-4711-packed`) if you may call again after a crash. By itself each call makes one, so that its own
    ///   repeats send nothing twice.
    /// - Throws: ``PushAPIError``
    @discardableResult
    public func send(
        _ notification: PushAPI.NewNotification, idempotencyKey: String? = nil
    ) async throws -> PushAPI.Receipt {
        let key = idempotencyKey ?? UUID().uuidString
        return try await api.call(.init(.post, path("notifications"), json: notification.json, idempotencyKey: key)).decode()
    }

    /// Sends up to 1,000 notifications in one call. Each stands alone: a bad one harms no other.
    /// - Returns: The receipt or the refusal of each item, in order.
    public func send(_ items: [PushAPI.BatchItem]) async throws -> [Result<PushAPI.Receipt, PushAPIError>] {
        let body = JSONWriter.object { body in
            body.array("notifications") { array in
                for item in items {
                    array.object { object in
                        object.field("notification", raw: item.notification.json)
                        object.field("idempotency_key", item.idempotencyKey)
                    }
                }
            }
        }
        let answer = try await post(path("notifications", "batch"), body)
        return try (try answer.json()["results"]?.arrayValue ?? []).map { result in
            guard result["id"] != nil else {
                let status = Int(result["status"]?.integerValue ?? 0)
                return .failure(.refused(PushAPI.Problem(status: status, result)))
            }
            return .success(try answer.part(result).decode())
        }
    }

    /// What became of a notification so far.
    public func status(_ id: String) async throws -> PushAPI.NotificationStatus {
        try await api.call(.init(.get, path("notifications", id))).decode()
    }

    /// Waits until every delivery has its outcome. Cancel the task to stop waiting; the notification goes on.
    /// - Parameter interval: How often to ask.
    public func end(of id: String, interval: Duration = .milliseconds(500)) async throws -> PushAPI.NotificationStatus {
        while true {
            let status = try await status(id)
            if status.state.isEnd { return status }
            try await api.clock.sleep(interval)
        }
    }

    /// Stops a notification, as far as it was not sent yet.
    @discardableResult
    public func cancel(_ id: String) async throws -> PushAPI.Cancellation {
        try await api.call(.init(.delete, path("notifications", id))).decode()
    }

    /// Says step by step what happened for one user.
    public func why(_ id: String, user: String) async throws -> PushAPI.Explanation {
        try await api.call(.init(.get, path("notifications", id, "why"), query: [("user", user)])).decode()
    }

    /// Says what a notification would do, and sends nothing.
    public func validate(_ notification: PushAPI.NewNotification) async throws -> PushAPI.Validation {
        let answer = try await post(path("notifications", "validate"), notification.json)
        var validation: PushAPI.Validation = try answer.decode()
        for (index, payload) in (try answer.json()["payloads"]?.arrayValue ?? []).enumerated() {
            guard let json = payload["payload"], validation.payloads.indices.contains(index) else { continue }
            validation.payloads[index].payload = PushAPI.JSON(unchecked: answer.part(json).body)
        }
        return validation
    }

    /// All deliveries of a notification that match; the sequence reads them page by page.
    /// - Parameters:
    ///   - state: `pending` or an outcome class.
    ///   - reason: As `Unregistered`.
    public func deliveries(
        of id: String, state: String? = nil, reason: String? = nil, installation: String? = nil
    ) -> PushAPI.Deliveries {
        PushAPI.Deliveries(
            api: api, path: path("notifications", id, "deliveries"),
            filters: [("state", state), ("reason", reason), ("installation", installation)])
    }
}

extension PushAPI.Answer {
    /// The bytes of one value in the answer.
    fileprivate func part(_ value: JSONValue) -> PushAPI.Answer {
        PushAPI.Answer(status: status, headers: headers, body: Array(body[value.range]), call: call)
    }
}

extension PushAPI {
    /// Deliveries, read a page at a time while the caller takes them. Throws ``PushAPIError``.
    public struct Deliveries: AsyncSequence, Sendable {
        public typealias Element = Delivery

        let api: PushAPI
        let path: String
        let filters: [(String, String?)]

        public func makeAsyncIterator() -> Iterator { Iterator(list: self) }

        public struct Iterator: AsyncIteratorProtocol {
            private let list: Deliveries
            private var page: ArraySlice<Delivery> = []
            private var cursor: String?
            private var isLastPage = false

            init(list: Deliveries) { self.list = list }

            public mutating func next() async throws -> Delivery? {
                // A page can be empty and not the last.
                while page.isEmpty, !isLastPage {
                    let query = list.filters + [("limit", "1000"), ("cursor", cursor)]
                    let answer: Page = try await list.api.call(.init(.get, list.path, query: query)).decode()
                    page = answer.deliveries[...]
                    cursor = answer.nextCursor
                    isLastPage = cursor == nil
                }
                return page.popFirst()
            }
        }

        private struct Page: Decodable {
            let deliveries: [Delivery]
            let nextCursor: String?
        }
    }
}
