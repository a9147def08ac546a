import HTTP2

/// Reads requests of one connection in one pass over their bytes. Neighbours mostly have the same topic and provider token: those are
/// compared with the last ones, and their bytes exist once.
struct HeaderReader {
    private static let maximumTopicBytes = 255
    private static let maximumCollapseIDBytes = 64

    private static let method = Array(":method".utf8)
    private static let path = Array(":path".utf8)
    private static let authorization = Array("authorization".utf8)
    private static let messageID = Array("apns-id".utf8)
    private static let topic = Array("apns-topic".utf8)
    private static let pushType = Array("apns-push-type".utf8)
    private static let priority = Array("apns-priority".utf8)
    private static let expiration = Array("apns-expiration".utf8)
    private static let collapseID = Array("apns-collapse-id".utf8)
    private static let post = Array("POST".utf8)
    private static let devicePath = Array("/3/device/".utf8)

    private var lastTopic: [UInt8] = []
    private var lastAuthorization: [UInt8] = []

    mutating func read(_ list: HeaderList) -> PushHeaders {
        var headers = PushHeaders()
        var authorizations = 0
        // A bit for each other name, by its length and ends: names are compared only if two bits coincide.
        var others: UInt64 = 0
        var mayRepeat = false
        list.forEach { name, value in
            // Names are lower case already (RFC 9113 section 8.2).
            switch name.count {
            case 5 where name.holds(Self.path): set(&headers.path, &headers.hasDuplicate) { Self.readPath(value) }
            case 7 where name.holds(Self.messageID): set(&headers.id, &headers.hasDuplicate) { MessageID(value) }
            case 7 where name.holds(Self.method): headers.isPost = value.holds(Self.post)
            case 10 where name.holds(Self.topic): set(&headers.topic, &headers.hasDuplicate) { readTopic(value) }
            case 13 where name.holds(Self.authorization): authorizations += 1
            case 13 where name.holds(Self.priority): set(&headers.priority, &headers.hasDuplicate) { Self.readNumber(value) }
            case 14 where name.holds(Self.pushType): set(&headers.type, &headers.hasDuplicate) { ServerPushType(value) }
            case 15 where name.holds(Self.expiration): set(&headers.expiration, &headers.hasDuplicate) { Self.readNumber(value) }
            case 16 where name.holds(Self.collapseID): set(&headers.collapseID, &headers.hasDuplicate) { Self.readCollapseID(value) }
            case 0: break
            default:
                let bit: UInt64 = 1 << ((UInt64(name.count) &* 7 &+ UInt64(name[0]) &+ UInt64(name[name.count - 1]) &* 3) & 63)
                if others & bit != 0 { mayRepeat = true }
                others |= bit
            }
        }
        if authorizations > 1 || (mayRepeat && Self.hasRepetition(list)) { headers.hasDuplicate = true }
        if authorizations > 0 { headers.authorization = readAuthorization(list) }
        return headers
    }

    private static func hasRepetition(_ list: HeaderList) -> Bool {
        var names: Set<[UInt8]> = []
        var isRepeated = false
        list.forEach { name, _ in if !names.insert(Array(copying: name)).inserted { isRepeated = true } }
        return isRepeated
    }

    private func set<Value>(_ field: inout Parsed<Value>, _ hasDuplicate: inout Bool, _ read: () -> Value?) {
        if field.isAbsent { field = Parsed(read()) } else { hasDuplicate = true }
    }

    /// An empty value equals none.
    private mutating func readAuthorization(_ list: HeaderList) -> [UInt8]? {
        if !list.has("authorization", equalTo: lastAuthorization) {
            lastAuthorization = list.value(of: "authorization").map { Array($0) } ?? []
        }
        return lastAuthorization.isEmpty ? nil : lastAuthorization
    }

    /// Letters, digits, dots, hyphens and underscores, as a bundle id and Apple's suffixes have. The caller checks for an empty one.
    private mutating func readTopic(_ value: Span<UInt8>) -> [UInt8]? {
        if value.holds(lastTopic) { return lastTopic }
        guard value.count <= Self.maximumTopicBytes else { return nil }
        for index in value.indices {
            switch value[index] {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
                continue
            default: return nil
            }
        }
        lastTopic = Array(copying: value)
        return lastTopic
    }

    private static func readPath(_ value: Span<UInt8>) -> PushHeaders.Path {
        guard value.count >= devicePath.count, value.extracting(first: devicePath.count).holds(devicePath) else { return .other }
        let token = value.extracting(droppingFirst: devicePath.count)
        if token.isEmpty { return .withoutToken }
        if let key = TokenKey(hex: token) { return .token(key) }
        for index in token.indices where token[index] == UInt8(ascii: "/") { return .other }
        return .badToken
    }

    private static func readCollapseID(_ value: Span<UInt8>) -> [UInt8]? {
        value.count <= maximumCollapseIDBytes ? Array(copying: value) : nil
    }

    /// Decimal digits only, as many as fit.
    private static func readNumber(_ text: Span<UInt8>) -> Int? {
        guard !text.isEmpty, text.count <= 18 else { return nil }
        var value = 0
        for index in text.indices {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(text[index]) else { return nil }
            value = value * 10 + Int(text[index] - UInt8(ascii: "0"))
        }
        return value
    }
}

extension Span<UInt8> {
    /// Whether these are exactly the bytes.
    func holds(_ bytes: [UInt8]) -> Bool {
        guard count == bytes.count else { return false }
        for index in indices where self[index] != bytes[index] { return false }
        return true
    }
}

extension [UInt8] {
    init(copying span: Span<UInt8>) {
        self.init()
        reserveCapacity(span.count)
        for index in span.indices { append(span[index]) }
    }
}
