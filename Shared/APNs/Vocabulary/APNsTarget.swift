package import OpenSSL
package import PushModel
import StrictJSON

/// Where the requests of a batch go.
package enum APNsTarget: Equatable, Sendable {
    /// `POST /3/device/<token>` (Apple: Sending notification requests to APNs).
    case device
    /// `POST /4/broadcasts/apps/<bundle id>`. The batch's topic is the bundle id, and the token of each request holds a channel's id
    /// (Apple: Sending broadcast push notification requests to APNs).
    case broadcast
    /// `/1/apps/<bundle id>/channels`. The batch's topic is the bundle id (Apple: Sending channel management requests to APNs).
    case channels(ChannelCommand.Request)

    package var service: APNsService {
        switch self {
        case .device: .device
        case .broadcast: .broadcast
        case .channels: .channels
        }
    }

    var method: String {
        switch self {
        case .device, .broadcast, .channels(.create): "POST"
        case .channels(.read), .channels(.list): "GET"
        case .channels(.delete): "DELETE"
        }
    }

    /// The path, without a token; nil if each request has its own.
    func path(topic: String) -> String? {
        switch self {
        case .device: nil
        case .broadcast: "/4/broadcasts/apps/\(topic)"
        case .channels(.list): "/1/apps/\(topic)/all-channels"
        case .channels: "/1/apps/\(topic)/channels"
        }
    }

    /// Apple's pages name both for a broadcast (docs/apns.md, Broadcasts).
    var idHeader: StaticString { self == .device ? "apns-id" : "apns-request-id" }
}

extension ChannelCommand.Request {
    /// The header `apns-channel-id`.
    var channel: ChannelID? {
        switch self {
        case .read(let channel), .delete(let channel): channel
        case .create, .list: nil
        }
    }
}

/// What a pool sends. Apple serves each at hosts of its own, so each has connections of its own.
package enum APNsService: String, Sendable, CaseIterable {
    /// Pushes to devices.
    case device
    /// Pushes to broadcast channels.
    case broadcast
    /// The management of broadcast channels.
    case channels
}

/// The address of one environment of APNs, and the authorities that prove that it is Apple's.
package struct APNsEndpoint: Sendable {
    /// Resolved anew for each connection (Apple: Establishing a connection to APNs).
    package let host: String
    package let port: Int
    /// The name the certificate must carry; usually the host.
    package let tlsName: String
    package let trust: TLSTrust

    package init(host: String, port: Int = 443, tlsName: String? = nil, trust: TLSTrust = .system) {
        self.host = host
        self.port = port
        self.tlsName = tlsName ?? host
        self.trust = trust
    }

    /// Apple's own hosts (Sending notification requests to APNs; Sending channel management requests to APNs). Broadcasts get through at
    /// the hosts of device pushes (docs/apns.md, Broadcasts).
    package static func apple(_ environment: APNsEnvironment, _ service: APNsService = .device) -> APNsEndpoint {
        switch (service, environment) {
        case (.device, .production), (.broadcast, .production): APNsEndpoint(host: "api.push.apple.com")
        case (.device, .sandbox), (.broadcast, .sandbox): APNsEndpoint(host: "api.sandbox.push.apple.com")
        case (.channels, .production): APNsEndpoint(host: "api-manage-broadcast.push.apple.com", port: 2196)
        case (.channels, .sandbox): APNsEndpoint(host: "api-manage-broadcast.sandbox.push.apple.com", port: 2195)
        }
    }

    /// The value of `:authority`.
    var authority: String { port == 443 ? tlsName : "\(tlsName):\(port)" }
}

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
    /// Each request's id is its `apns-collapse-id` too where there is no ``collapseID``, so that a second copy replaces the first on the
    /// screen: APNs itself does not de-duplicate (docs/apns.md, What may be sent again).
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
    /// The installation, for the gate, which knows about fences.
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
