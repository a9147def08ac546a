import HTTP2
import PushModel

/// The header block of one connection: what never changes stands first, what a batch fixes follows, and only path and id are written per
/// request, in place (APNS.md section 2).
struct RequestHeaders {
    private(set) var block = HeaderBlock()
    private let authority: String
    private var base: HeaderBlock.Mark
    /// Nil before the first request.
    private var authorization: [UInt8]?
    private var pathIndex = 0
    private var idIndex = 0
    /// Where the collapse id is each request's own.
    private var collapseIndex: Int?
    /// Held, not only compared: another ledger could come to lie at the same address.
    private var ledger: BatchLedger?
    private var path: [UInt8]
    private var id: [UInt8] = []
    /// Names already in APNs' compression table: their values, which change all the time, stay out of it (APNS.md section 2.3).
    private var knowsID = false
    private var knowsExpiration = false
    private var knowsCollapseID = false

    private static let pathPrefix = Array("/3/device/".utf8)
    /// As long as the paths and ids to come, so that they fit in place.
    private static let pathPlaceholder = pathPrefix + Array(repeating: UInt8(ascii: "0"), count: 64)
    private static let idPlaceholder = Array(repeating: UInt8(ascii: "0"), count: 36)

    init(authority: String) {
        self.authority = authority
        base = block.mark
        path = Self.pathPrefix
    }

    /// Prepares for requests of a batch. Cheap when it is the same one as before.
    /// - Parameter authorization: empty for none.
    mutating func begin(_ ledger: BatchLedger, authorization: [UInt8]) {
        if authorization != self.authorization {
            rebuild(authorization)
        } else if self.ledger === ledger {
            return
        }
        self.ledger = ledger
        let content = ledger.batch
        block.truncate(to: base)
        block.append("apns-topic", content.topic)
        block.append("apns-push-type", content.pushType.rawValue)
        block.append("apns-priority", String(content.priority))
        if let expiration = content.expiration {
            block.append("apns-expiration", String(expiration), indexing: knowsExpiration ? .withoutIndexing : .incremental)
        }
        collapseIndex = nil
        let indexing: HeaderIndexing = knowsCollapseID ? .withoutIndexing : .incremental
        if let collapseID = content.collapseID {
            block.append("apns-collapse-id", collapseID, indexing: indexing)
        } else if content.collapsesByID {
            collapseIndex = block.append("apns-collapse-id", Self.idPlaceholder, indexing: indexing)
        }
    }

    /// Writes the request's own path and id.
    mutating func set(_ request: APNsRequest) {
        path.removeSubrange(Self.pathPrefix.count...)
        request.token.appendHex(to: &path)
        block.setValue(path, at: pathIndex)
        id.removeAll(keepingCapacity: true)
        request.id.append(to: &id)
        block.setValue(id, at: idIndex)
        if let collapseIndex { block.setValue(id, at: collapseIndex) }
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
        block.append(":method", "POST")
        block.append(":scheme", "https")
        block.append(":authority", authority)
        pathIndex = block.append(":path", Self.pathPlaceholder)
        if !authorization.isEmpty { block.append("authorization", authorization) }
        idIndex = block.append("apns-id", Self.idPlaceholder, indexing: knowsID ? .withoutIndexing : .incremental)
        base = block.mark
    }
}
