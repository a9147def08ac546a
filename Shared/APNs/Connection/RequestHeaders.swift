import HTTP2
import PushModel

/// The header block of one connection: constant headers first, then those of a batch; only path and id are written per request, in place
/// (Apple: Sending notification requests to APNs).
struct RequestHeaders {
    private(set) var block = HeaderBlock()
    private let authority: String
    private var base: HeaderBlock.Mark
    /// Nil before the first request.
    private var authorization: [UInt8]?
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

    private static let pathPrefix = Array("/3/device/".utf8)
    /// As long as the paths and ids to come, so that they fit in place.
    private static let pathPlaceholder = pathPrefix + Array(repeating: UInt8(ascii: "0"), count: 64)
    private static let idPlaceholder = Array("00000000-0000-0000-0000-000000000000".utf8)

    init(authority: String) {
        self.authority = authority
        base = block.mark
    }

    /// Prepares for requests of a batch. Cheap if the batch is the same as before, or has equal headers.
    /// - Parameter authorization: empty for none.
    mutating func begin(_ batch: APNsBatch, authorization: [UInt8]) {
        if authorization != self.authorization {
            rebuild(authorization)
        } else if let last = self.batch, last === batch || Self.haveSameHeaders(last, batch) {
            return
        }
        self.batch = batch
        block.truncate(to: base)
        block.append(fixed: "apns-topic", batch.topic)
        block.append(fixed: "apns-push-type", batch.pushType.rawValue)
        block.append(fixed: "apns-priority", String(batch.priority))
        if let expiration = batch.expiration {
            block.append(fixed: "apns-expiration", String(expiration), indexing: knowsExpiration ? .withoutIndexing : .incremental)
        }
        collapseIndex = nil
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

    /// Writes the request's own path and id.
    mutating func set(_ request: APNsRequest) {
        let prefix = Self.pathPrefix.count
        let count = prefix + request.token.hexCount
        if block.valueCount(at: pathIndex) != count {
            block.setValue(Self.pathPrefix + Array(repeating: UInt8(ascii: "0"), count: request.token.hexCount), at: pathIndex)
        }
        block.rewriteValue(at: pathIndex) { request.token.writeHex(to: &$0, at: $1 + prefix) }
        block.rewriteValue(at: idIndex) { request.id.write(to: &$0, at: $1) }
        if let collapseIndex { block.rewriteValue(at: collapseIndex) { request.id.write(to: &$0, at: $1) } }
    }

    /// After a request with this block has been submitted. Only the first of each kind on a connection changes anything.
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

    private mutating func rebuild(_ authorization: [UInt8]) {
        self.authorization = authorization
        block = HeaderBlock()
        block.append(fixed: ":method", "POST")
        block.append(fixed: ":scheme", "https")
        block.append(fixed: ":authority", authority)
        pathIndex = block.append(fixed: ":path", Self.pathPlaceholder)
        if !authorization.isEmpty { block.append(fixed: "authorization", authorization) }
        idIndex = block.append(fixed: "apns-id", Self.idPlaceholder, indexing: knowsID ? .withoutIndexing : .incremental)
        base = block.mark
    }
}
