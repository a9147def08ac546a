import HTTP2

/// The facts of a push that were read before a check failed, or all of them.
struct PushFacts {
    var id: MessageID?
    var topic: [UInt8] = []
    var type: ServerPushType?
    var token: TokenKey?
    var collapseID: [UInt8]?
    /// UNIX seconds; 0 is "try once"; nil stores for thirty days.
    var expiration: Int?
    var priority = 10
    var content: PayloadReader.Reading?
}

/// The checks of one connection, in the order of pushy's mock server: apns-id, method, topic, collapse id, (expiration,) priority, push
/// type, path and token, authentication, payload. The first that fails decides.
///
/// The device's state is not read here: only a request that may be sent at all may learn it.
struct RequestCheck {
    private(set) var authority: ConnectionAuthority
    private var reader = HeaderReader()
    private var payloads = PayloadReader()

    init(authority: ConnectionAuthority) {
        self.authority = authority
    }

    /// The right to an app's channels, by token or certificate.
    mutating func authorize(_ authorization: [UInt8]?, bundleID: [UInt8], now: Int64) -> BroadcastAnswer? {
        if let certificate = authority.certificate {
            guard certificate.isTrusted else { return BroadcastAnswer(.badCertificate) }
            return certificate.covers(bundleID: bundleID) ? nil : BroadcastAnswer(.topicMismatch)
        }
        return authority.check(authorization: authorization, topic: bundleID, now: now).map { BroadcastAnswer($0) }
    }

    /// The connection's client has shown a certificate.
    mutating func present(_ certificate: ProviderCertificate) {
        authority.present(certificate)
    }

    /// - Parameters:
    ///   - body: nil if it was longer than any that is allowed.
    ///   - now: UNIX milliseconds.
    ///   - facts: Filled with all facts that could be read, for every result.
    /// - Returns: Why the push is refused; nil if the request is correct.
    mutating func check(_ list: HeaderList, body: [UInt8]?, now: Int64, facts: inout PushFacts) -> RejectionReason? {
        let headers = reader.read(list)
        if headers.hasDuplicate { return .duplicateHeaders }
        switch headers.id {
        case .absent: break
        case .invalid: return .badMessageID
        case .value(let id): facts.id = id
        }
        guard headers.isPost else { return .methodNotAllowed }
        switch headers.topic {
        case .absent:
            guard let only = authority.certificate?.onlyTopic else { return .missingTopic }
            facts.topic = only
        case .invalid: return .badTopic
        case .value(let topic): facts.topic = topic
        }
        guard !facts.topic.isEmpty else { return .missingTopic }
        return checkDelivery(headers, facts: &facts)
            ?? checkPath(headers, facts: &facts)
            ?? authority.check(authorization: headers.authorization, topic: facts.topic, now: now)
            ?? checkPayload(body, facts: &facts)
    }

    private func checkDelivery(_ headers: borrowing PushHeaders, facts: inout PushFacts) -> RejectionReason? {
        switch headers.collapseID {
        case .absent: break
        case .invalid: return .badCollapseID
        case .value(let collapseID): facts.collapseID = collapseID
        }
        switch headers.expiration {
        case .absent: break
        case .invalid: return .badExpirationDate
        case .value(let moment): facts.expiration = moment
        }
        switch headers.priority {
        case .absent: break
        case .value(let value) where value == 10 || value == 5 || value == 1: facts.priority = value
        case .value, .invalid: return .badPriority
        }
        switch headers.type {
        case .absent: return nil
        case .invalid: return .invalidPushType
        case .value(let type):
            facts.type = type
            guard type.allows(priority: facts.priority) else { return .badPriority }
            return type.fits(topic: facts.topic[...]) ? nil : .badTopic
        }
    }

    private func checkPath(_ headers: borrowing PushHeaders, facts: inout PushFacts) -> RejectionReason? {
        guard case .value(let path) = headers.path else { return .badPath }
        switch path {
        case .other: return .badPath
        case .withoutToken: return .missingDeviceToken
        case .badToken: return .badDeviceToken
        case .token(let token):
            facts.token = token
            return nil
        }
    }

    private mutating func checkPayload(_ body: [UInt8]?, facts: inout PushFacts) -> RejectionReason? {
        guard let body, body.count <= (facts.type ?? .alert).maximumPayloadBytes else { return .payloadTooLarge }
        guard !body.isEmpty else { return .payloadEmpty }
        let reading = payloads.read(body)
        facts.content = reading
        // APNs has no reason of its own for a body that is not a JSON object: it finds no content in it.
        return reading.isObject ? nil : .payloadEmpty
    }
}

/// A header's value after reading.
enum Parsed<Value> {
    case absent
    /// It does not have the form that APNs requires.
    case invalid
    case value(Value)

    init(_ value: Value?) {
        if let value { self = .value(value) } else { self = .invalid }
    }

    var isAbsent: Bool {
        if case .absent = self { true } else { false }
    }
}

/// The parsed headers that APNs reads. Not copyable: a copy would count references for every push.
struct PushHeaders: ~Copyable {
    enum Path {
        /// The path is not `/3/device/` followed by a text without a slash.
        case other
        case withoutToken
        /// The text in the token's place is not a token.
        case badToken
        case token(TokenKey)
    }

    var isPost = false
    var path: Parsed<Path> = .absent
    var authorization: [UInt8]?
    var id: Parsed<MessageID> = .absent
    var topic: Parsed<[UInt8]> = .absent
    var type: Parsed<ServerPushType> = .absent
    var priority: Parsed<Int> = .absent
    var expiration: Parsed<Int> = .absent
    var collapseID: Parsed<[UInt8]> = .absent
    /// One of these came twice.
    var hasDuplicate = false
}
