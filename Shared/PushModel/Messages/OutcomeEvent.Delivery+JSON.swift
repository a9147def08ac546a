import StrictJSON

extension OutcomeEvent.Delivery {
    private enum Field: String, CaseIterable {
        case id, notification, installation, attempt
        case ownerEpoch = "owner_epoch"
        case status, reason
        case timestamp = "timestamp_ms"
        case sentAt = "sent_at_ms"
        case retryAt = "retry_at_ms"
        case environment
        case apnsUniqueID = "apns_unique_id"
        case traceparent

        static let table = FieldTable(Field.self)
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            // This runs once for each delivery: the constant text is written in one piece, and the ids into it.
            writer.raw { bytes in
                let start = bytes.count
                bytes.append(contentsOf: Self.beginning)
                var text = bytes.mutableSpan
                id.write(to: &text, at: start + 6)
                notification.write(to: &text, at: start + 60)
                installation.write(to: &text, at: start + 114)
            }
            writer.decimal(Int64(attempt))
            if let ownerEpoch { writer.decimal(ownerEpoch, after: #","owner_epoch":"#) }
            if let status { writer.decimal(Int64(status), after: #","status":"#) }
            writer.field("reason", reason)
            writer.field("timestamp_ms", timestamp)
            if let sentAt { writer.decimal(sentAt, after: #","sent_at_ms":"#) }
            writer.field("retry_at_ms", retryAt)
            writer.field("environment", environment?.rawValue)
            writer.field("apns_unique_id", apnsUniqueID)
            writer.field("traceparent", traceparent)
        }
    }

    private static let beginning: [UInt8] = {
        let id = "00000000-0000-0000-0000-000000000000"
        return Array(#""id":"\#(id)","notification":"\#(id)","installation":"\#(id)","attempt":"#.utf8)
    }()

    init(from scanner: inout JSONScanner) throws(JSONError) {
        var id: PushID?
        var notification: PushID?
        var installation: PushID?
        var attempt: Int?
        var ownerEpoch: Int64?
        var status: Int?
        var reason: String?
        var timestamp: Int64?
        var sentAt: Int64?
        var retryAt: Int64?
        var environment: APNsEnvironment?
        var apnsUniqueID: String?
        var traceparent: String?
        var place = try scanner.fields(Field.table.names)
        while let field = try Field.table.next(in: &scanner, &place) {
            switch field {
            case .id: id = try scanner.pushID("id")
            case .notification: notification = try scanner.pushID("notification")
            case .installation: installation = try scanner.pushID("installation")
            case .attempt: attempt = try scanner.integer("attempt", in: 0...Int(Int32.max))
            case .ownerEpoch: ownerEpoch = try scanner.null() ? nil : try scanner.integer()
            case .status: status = try scanner.null() ? nil : try scanner.integer("status", in: 0...999)
            case .reason: reason = try scanner.null() ? nil : OutsideText.harmless(try scanner.string())
            case .timestamp: timestamp = try scanner.null() ? nil : try scanner.integer()
            case .sentAt: sentAt = try scanner.null() ? nil : try scanner.integer()
            case .retryAt: retryAt = try scanner.null() ? nil : try scanner.integer()
            case .environment: environment = try scanner.null() ? nil : APNsEnvironment(rawValue: try scanner.string())
            case .apnsUniqueID: apnsUniqueID = try scanner.null() ? nil : OutsideText.harmless(try scanner.string())
            case .traceparent: traceparent = try scanner.null() ? nil : try scanner.string()
            }
        }
        self.init(
            id: try scanner.require(id, "id"), notification: try scanner.require(notification, "notification"),
            installation: try scanner.require(installation, "installation"), attempt: try scanner.require(attempt, "attempt"),
            ownerEpoch: ownerEpoch, status: status, reason: reason, timestamp: timestamp, sentAt: sentAt, retryAt: retryAt,
            environment: environment, apnsUniqueID: apnsUniqueID, traceparent: traceparent)
    }
}

/// The fields of one kind of object, in the order they are written: an enumeration whose raw values are the names on the wire.
struct FieldTable<Field: RawRepresentable<String> & CaseIterable & Sendable>: Sendable {
    let names: JSONNames
    private let fields: [Field]

    init(_ type: Field.Type) {
        fields = Array(Field.allCases)
        names = JSONNames(fields.map(\.rawValue))
    }

    /// The next field of the object that `place` is in, its value to be read next; nil at the end. Unknown fields are passed over.
    func next(in scanner: inout JSONScanner, _ place: inout JSONFields) throws(JSONError) -> Field? {
        try scanner.next(&place).map { fields[$0] }
    }
}

/// Our types as fields of a message. Each error names the field.
extension JSONScanner {
    mutating func pushID(_ field: String) throws(JSONError) -> PushID {
        guard let id = PushID(ascii: try stringBytes()) else { throw error(inField: field, "expected a UUID") }
        return id
    }

    mutating func appSlug(_ field: String) throws(JSONError) -> AppSlug {
        guard let slug = AppSlug(try string()) else { throw error(inField: field, "expected " + AppSlug.rule) }
        return slug
    }

    mutating func deviceToken(_ field: String) throws(JSONError) -> DeviceToken {
        guard let token = DeviceToken(asciiHex: try stringBytes()) else {
            throw error(inField: field, "expected an even number of hex digits")
        }
        return token
    }

    mutating func choice<Choice: RawRepresentable<String>>(_ field: String, of type: Choice.Type) throws(JSONError) -> Choice {
        guard let choice = Choice(rawValue: try string()) else { throw error(inField: field, "not one of the known words") }
        return choice
    }

    mutating func integer(_ field: String, in range: ClosedRange<Int>) throws(JSONError) -> Int {
        guard let value = Int(exactly: try integer()), range.contains(value) else {
            throw error(inField: field, "from \(range.lowerBound) to \(range.upperBound)")
        }
        return value
    }

    /// The value of a field that must be there.
    func require<Value>(_ value: Value?, _ field: String) throws(JSONError) -> Value {
        guard let value else { throw error(inField: field, "missing") }
        return value
    }
}
