public import Foundation
import StrictJSON

/// Broadcast channels. Changes need a key with the scope `send`, reads one with `read`.
extension PushAPI.App {
    /// Creates a channel, or returns the one that has this name. If Apple does not answer within five seconds, its state is `creating`.
    /// - Throws: ``PushAPIError``: 409 `channel_differs`, `channel_limit` or `channel_refused`.
    @discardableResult
    public func openChannel(
        _ name: String, environment: String = "production", storage: PushAPI.Channel.Storage
    ) async throws -> PushAPI.Channel {
        try await put(name) { body in
            body.field("environment", environment)
            body.field("storage", storage.rawValue)
        }
    }

    /// Gives a name to a channel that exists at Apple.
    /// - Parameter id: Apple's, in base64.
    @discardableResult
    public func adoptChannel(_ name: String, environment: String = "production", id: String) async throws -> PushAPI.Channel {
        try await put(name) { body in
            body.field("environment", environment)
            body.field("channel_id", id)
        }
    }

    /// Sends a state to every Live Activity that follows a channel, by one request to APNs. It is a notification with one delivery.
    /// - Parameter idempotencyKey: The key, as that of ``send(_:idempotencyKey:)``.
    /// - Throws: ``PushAPIError``: 404 `not_found` for a name without a channel, 409 `channel_not_open`.
    @discardableResult
    public func broadcast(
        _ broadcast: PushAPI.NewBroadcast, to channel: String, idempotencyKey: String? = nil
    ) async throws -> PushAPI.Receipt {
        let key = idempotencyKey ?? UUID().uuidString
        return try await api.call(
            PushAPI.Call(.post, path("channels", channel, "broadcasts"), json: broadcast.json, idempotencyKey: key)
        ).decode()
    }

    /// - Throws: ``PushAPIError``: 404 `not_found` for a name without a channel.
    public func channel(_ name: String) async throws -> PushAPI.Channel {
        try await api.call(PushAPI.Call(.get, path("channels", name))).decode()
    }

    /// One page of the channels, the oldest first.
    public func channels(
        state: PushAPI.Channel.State? = nil, environment: String? = nil, limit: Int? = nil, cursor: String? = nil
    ) async throws -> PushAPI.ChannelPage {
        let query = [
            ("state", state?.rawValue), ("environment", environment), ("limit", limit.map { "\($0)" }), ("cursor", cursor),
        ]
        return try await api.call(PushAPI.Call(.get, path("channels"), query: query)).decode()
    }

    /// Deletes a channel. Succeeds if there is none.
    /// - Parameter force: Although Live Activities follow it.
    /// - Returns: the channel if Apple has not deleted it yet.
    /// - Throws: ``PushAPIError``: 409 `channel_in_use`.
    @discardableResult
    public func deleteChannel(_ name: String, force: Bool = false) async throws -> PushAPI.Channel? {
        try await delete(PushAPI.Call(.delete, path("channels", name), query: [("force", force ? "true" : nil)]))
    }

    /// Deletes a channel that has no name here.
    /// - Parameter id: Apple's, in base64.
    /// - Returns: the channel if Apple has not deleted it yet.
    @discardableResult
    public func deleteForeignChannel(id: String, environment: String = "production") async throws -> PushAPI.Channel? {
        try await delete(PushAPI.Call(.delete, path("channels"), query: [("channel_id", id), ("environment", environment)]))
    }

    private func put(_ name: String, _ body: (inout JSONWriter) -> Void) async throws -> PushAPI.Channel {
        try await api.call(PushAPI.Call(.put, path("channels", name), json: JSONWriter.object(body))).decode()
    }

    private func delete(_ call: PushAPI.Call) async throws -> PushAPI.Channel? {
        let answer = try await api.call(call)
        return answer.status == 204 ? nil : try answer.decode()
    }
}

extension PushAPI {
    /// An update or an end of the Live Activities that follow a channel. What is nil the service decides.
    public struct NewBroadcast: Sendable, Hashable {
        public var content: Content
        /// Whether to update the channel's activities that have update tokens too, one by one: for devices below iOS 18.
        public var includesActivities = false
        /// 5 or 10.
        public var priority: Int?
        /// The moment after which nothing is sent.
        public var expiresAt: Date?
        /// The same, counted from now, in whole seconds.
        public var timeToLive: Duration?
        /// How long APNs may keep it. UNIX seconds, 0: not at all.
        public var apnsExpiration: Int?
        /// `now`, `soon` or `bulk`.
        public var lane: String?
        /// `all` or `failures`.
        public var receipts: String?
        /// `resend`, `resend_once` or `drop`.
        public var onUnknown: String?

        /// - Parameter content: The content with event `update` or `end`.
        public init(_ content: Content) { self.content = content }

        var json: [UInt8] {
            JSONWriter.object { body in
                content.write(&body)
                if includesActivities { body.field("fallback", "activities") }
                body.field("priority", priority)
                body.field("expires_at", expiresAt?.rfc3339)
                body.field("ttl_seconds", timeToLive?.components.seconds)
                body.field("apns_expiration", apnsExpiration)
                body.field("lane", lane)
                body.field("receipts", receipts)
                body.field("on_unknown", onUnknown)
            }
        }
    }
}
