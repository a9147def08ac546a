package import PushModel
import StrictJSON

/// One job's share for one pool: requests that differ only in token and id. Handed to the pool once, and given back once, whole.
///
/// A class, because it is passed on many times: that costs one reference, not one for each of its fields.
package final class APNsBatch: Sendable {
    /// The caller's; comes back unchanged.
    package let tag: UInt64
    package let target: APNsTarget
    package let lane: Lane
    package let pushType: PushType
    package let topic: String
    package let priority: Int
    package let collapseID: String?
    /// Without a ``collapseID``: each request's id is its `apns-collapse-id` too, so that a second copy replaces the first on the screen:
    /// APNs itself does not de-duplicate (docs/apns.md, What may be sent again).
    package let collapsesByID: Bool
    /// `apns-expiration`: absolute UNIX seconds; 0 = Apple tries once; nil = Apple's default.
    package let expiration: Int64?
    /// UNIX milliseconds: no request of this batch is sent at or after this moment.
    package let expiresAt: Int64
    /// The body, verbatim.
    package let payload: [UInt8]
    package let requests: [APNsRequest]

    /// Whether `apns-collapse-id` is sent.
    var hasCollapseID: Bool { collapseID != nil || collapsesByID }

    package init(
        tag: UInt64, target: APNsTarget = .device, lane: Lane, pushType: PushType, topic: String, priority: Int, collapseID: String? = nil,
        collapsesByID: Bool = false, expiration: Int64? = nil, expiresAt: Int64, payload: [UInt8], requests: [APNsRequest]
    ) {
        self.tag = tag
        self.target = target
        self.lane = lane
        self.pushType = pushType
        self.topic = topic
        self.priority = priority
        self.collapseID = collapseID
        self.collapsesByID = collapsesByID && collapseID == nil
        self.expiration = expiration
        self.expiresAt = expiresAt
        self.payload = payload
        self.requests = requests
    }
}

extension APNsBatch {
    /// One request of channel management.
    package convenience init(tag: UInt64, id: PushID, _ request: ChannelCommand.Request, bundleID: String, expiresAt: Int64) {
        var body: [UInt8] = []
        if case .create(let storage) = request {
            var writer = JSONWriter()
            writer.object { writer in
                writer.field("message-storage-policy", storage.policy)
                writer.field("push-type", "LiveActivity")
            }
            body = writer.bytes
        }
        self.init(
            tag: tag, target: .channels(request), lane: .now, pushType: .liveactivity, topic: bundleID, priority: 10, expiresAt: expiresAt,
            payload: body,
            requests: [APNsRequest(id: id, token: .ofNoDevice, installation: .zero, ownerEpoch: 0, index: 0)])
    }
}

/// One delivery of a batch.
package struct APNsRequest: Sendable {
    /// The `apns-id`.
    package let id: PushID
    package let token: DeviceToken
    /// For the gate, which knows about fences.
    package let installation: PushID
    package let ownerEpoch: Int64
    /// The caller's; the answer carries it.
    package let index: Int

    package init(id: PushID, token: DeviceToken, installation: PushID, ownerEpoch: Int64, index: Int) {
        self.id = id
        self.token = token
        self.installation = installation
        self.ownerEpoch = ownerEpoch
        self.index = index
    }
}
