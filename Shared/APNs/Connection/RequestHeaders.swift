import HTTP2
import PushModel

/// The header block of one connection: constant headers first, then those of a batch; only token and id are written per request, in place
/// (Apple: Sending notification requests to APNs).
struct RequestHeaders {
    private(set) var block = HeaderBlock()
    private let authority: String
    private var base: HeaderBlock.Mark
    /// Nil before the first request.
    private var authorization: [UInt8]?
    private var target = APNsTarget.device
    private var token = TokenPlace.path
    private var pathIndex = 0
    private var idIndex = 0
    /// The place of the collapse id, if each request has its own.
    private var collapseIndex: Int?
    /// The batch whose headers are in the block. Held, not only compared: another batch could get the same address.
    private var batch: APNsBatch?
    /// Names already in APNs' compression table: their values, which change all the time, stay out of it (docs/apns.md, Headers).
    private var knowsID = false
    private var knowsExpiration = false
    private var knowsCollapseID = false

    /// Where a request's token stands.
    private enum TokenPlace {
        case path
        case channelHeader(Int)
        case nowhere
    }

    private static let pathPrefix = Array("/3/device/".utf8)
    /// A placeholder as long as the paths to come, as is that of the ids, so that they fit in place.
    private static let pathPlaceholder = pathPrefix + Array(repeating: UInt8(ascii: "0"), count: 64)
    private static let idPlaceholder = Array("00000000-0000-0000-0000-000000000000".utf8)

    init(authority: String) {
        self.authority = authority
        base = block.mark
    }

    /// Prepares for requests of a batch. Cheap if the batch is the same as before, or has equal headers.
    /// - Parameter authorization: empty for none.
    mutating func begin(_ batch: APNsBatch, authorization: [UInt8]) {
        if authorization != self.authorization || batch.target != target {
            rebuild(authorization, batch.target)
        } else if let last = self.batch, last === batch || Self.haveSameHeaders(last, batch) {
            return
        }
        self.batch = batch
        block.truncate(to: base)
        collapseIndex = nil
        if let path = batch.target.path(topic: batch.topic) { block.setValue(path, at: pathIndex) }
        switch batch.target {
        case .device:
            token = .path
            block.append(fixed: "apns-topic", batch.topic)
            appendPush(batch)
        case .broadcast:
            token = .channelHeader(block.append(fixed: "apns-channel-id", "", indexing: .withoutIndexing))
            appendPush(batch)
        case .channels(let request):
            token = .nowhere
            if let channel = request.channel { block.append(fixed: "apns-channel-id", channel.text, indexing: .withoutIndexing) }
        }
    }

    private mutating func appendPush(_ batch: APNsBatch) {
        block.append(fixed: "apns-push-type", batch.pushType.rawValue)
        block.append(fixed: "apns-priority", String(batch.priority))
        if let expiration = batch.expiration {
            block.append(fixed: "apns-expiration", String(expiration), indexing: knowsExpiration ? .withoutIndexing : .incremental)
        }
        let indexing: HeaderIndexing = knowsCollapseID ? .withoutIndexing : .incremental
        if let collapseID = batch.collapseID {
            block.append(fixed: "apns-collapse-id", collapseID, indexing: indexing)
        } else if batch.collapsesByID {
            collapseIndex = block.append(fixed: "apns-collapse-id", Self.idPlaceholder, indexing: indexing)
        }
    }

    private static func haveSameHeaders(_ left: APNsBatch, _ right: APNsBatch) -> Bool {
        left.expiration == right.expiration && left.priority == right.priority && left.pushType == right.pushType
            && left.topic == right.topic && left.collapseID == right.collapseID && left.collapsesByID == right.collapsesByID
    }

    /// Writes the request's own token and id.
    mutating func set(_ request: APNsRequest) {
        switch token {
        case .path: setPath(request)
        case .channelHeader(let index): block.setValue(ChannelID(request.token).text, at: index)
        case .nowhere: break
        }
        block.rewriteValue(at: idIndex) { request.id.write(to: &$0, at: $1) }
        if let collapseIndex { block.rewriteValue(at: collapseIndex) { request.id.write(to: &$0, at: $1) } }
    }

    private mutating func setPath(_ request: APNsRequest) {
        let prefix = Self.pathPrefix.count
        let count = prefix + request.token.hexCount
        if block.valueCount(at: pathIndex) != count {
            block.setValue(Self.pathPrefix + Array(repeating: UInt8(ascii: "0"), count: request.token.hexCount), at: pathIndex)
        }
        block.rewriteValue(at: pathIndex) { request.token.writeHex(to: &$0, at: $1 + prefix) }
    }

    /// Notes that a request with this block has been submitted. Only the first of each kind on a connection changes anything.
    mutating func submitted(_ batch: APNsBatch) {
        if knowsID, knowsExpiration || batch.expiration == nil, knowsCollapseID || !batch.hasCollapseID { return }
        block.setIndexing(.withoutIndexing, at: idIndex)
        knowsID = true
        var last = block.count - 1
        if batch.hasCollapseID {
            block.setIndexing(.withoutIndexing, at: last)
            knowsCollapseID = true
            last -= 1
        }
        if batch.expiration != nil {
            block.setIndexing(.withoutIndexing, at: last)
            knowsExpiration = true
        }
    }

    private mutating func rebuild(_ authorization: [UInt8], _ target: APNsTarget) {
        self.authorization = authorization
        self.target = target
        block = HeaderBlock()
        block.append(fixed: ":method", target.method)
        block.append(fixed: ":scheme", "https")
        block.append(fixed: ":authority", authority)
        pathIndex = block.append(fixed: ":path", Self.pathPlaceholder)
        if !authorization.isEmpty { block.append(fixed: "authorization", authorization) }
        idIndex = block.append(fixed: target.idHeader, Self.idPlaceholder, indexing: knowsID ? .withoutIndexing : .incremental)
        base = block.mark
    }
}
