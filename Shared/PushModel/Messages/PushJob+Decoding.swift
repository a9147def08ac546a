/// Reading the wire form of `push_job.proto`, whose numbers stand here a second time: the dispatcher decodes every job, and nothing in a job
/// is worth an object of its own on the way.
extension PushJob {
    /// Unknown fields are passed over.
    /// - Throws: ``MessageError``, for any bytes whatever that are not a job of a version up to ``currentVersion``.
    package init(decoding bytes: [UInt8]) throws(MessageError) {
        guard bytes.count <= Self.maximumBytes else { throw MessageError(.malformed, "longer than \(Self.maximumBytes) bytes") }
        var reader = ProtobufReader(bytes)
        let fields = try JobFields(&reader)
        try MessageVersion.check(Int(fields.version), atMost: Self.currentVersion)
        try self.init(fields)
    }

    private init(_ fields: borrowing JobFields) throws(MessageError) {
        guard fields.deliveryCount <= Self.maximumDeliveries else {
            throw MessageError(.invalidField("deliveries"), "more than \(Self.maximumDeliveries)")
        }
        guard (1...10).contains(fields.priority) else { throw MessageError(.invalidField("priority"), "from 1 to 10") }
        guard fields.attempt >= 0 else { throw MessageError(.invalidField("attempt"), "not negative") }
        guard !fields.topic.isEmpty else { throw MessageError(.invalidField("topic"), "missing") }
        guard !fields.payload.isEmpty else { throw MessageError(.invalidField("payload"), "missing") }
        self.init(
            notification: try Wire.id(fields.notificationHigh, fields.notificationLow, "notification"),
            app: try Wire.known(AppSlug(fields.app), "app"),
            lane: try Wire.known(WireLane(rawValue: Int(fields.lane)).flatMap(Lane.init), "lane"),
            pushType: try Wire.known(PushType(rawValue: fields.pushType), "push_type"), topic: fields.topic,
            priority: Int(fields.priority), collapseID: fields.collapseID, apnsExpiration: fields.apnsExpiration,
            expiresAt: fields.expiresAt, acceptedAt: fields.acceptedAt, attempt: Int(fields.attempt),
            onUnknown: try Wire.known(WireOnUnknown(rawValue: Int(fields.onUnknown)).flatMap(OnUnknown.init), "on_unknown"),
            payload: fields.payload,
            deliveries: fields.deliveries)
        if let fault = fields.deliveryFault { throw fault }
    }
}

/// What the message holds, not yet judged: its version must be known before anything else about it is called wrong.
private struct JobFields: ~Copyable {
    var version: Int32 = 0
    var notificationHigh: UInt64 = 0
    var notificationLow: UInt64 = 0
    var app = ""
    var lane: Int32 = 0
    var pushType = ""
    var topic = ""
    var priority: Int32 = 0
    var collapseID: String?
    var apnsExpiration: Int64?
    var expiresAt: Int64 = 0
    var acceptedAt: Int64 = 0
    var attempt: Int32 = 0
    var onUnknown: Int32 = 0
    var payload: [UInt8] = []
    var deliveries: [PushJob.Delivery] = []
    /// Those that are kept and those that are not.
    var deliveryCount = 0
    /// The first thing wrong with a delivery.
    var deliveryFault: MessageError?

    init(_ reader: inout ProtobufReader) throws(MessageError) {
        while let tag = try reader.next() {
            switch (tag.field, tag.type) {
            case (1, .varint): version = Int32(truncatingIfNeeded: try reader.varint())
            case (2, .fixed64): notificationHigh = try reader.fixed64()
            case (3, .fixed64): notificationLow = try reader.fixed64()
            case (4, .bytes): app = try reader.string()
            case (5, .varint): lane = Int32(truncatingIfNeeded: try reader.varint())
            case (6, .bytes): pushType = try reader.string()
            case (7, .bytes): topic = try reader.string()
            case (8, .varint): priority = Int32(truncatingIfNeeded: try reader.varint())
            case (9, .bytes): collapseID = try reader.string()
            case (10, .varint): apnsExpiration = Int64(bitPattern: try reader.varint())
            case (11, .varint): expiresAt = Int64(bitPattern: try reader.varint())
            case (12, .varint): acceptedAt = Int64(bitPattern: try reader.varint())
            case (13, .varint): attempt = Int32(truncatingIfNeeded: try reader.varint())
            case (14, .varint): onUnknown = Int32(truncatingIfNeeded: try reader.varint())
            case (15, .bytes): payload = try reader.bytes()
            case (16, .bytes): try add(&reader)
            default: try reader.skip(tag)
            }
        }
    }

    private mutating func add(_ reader: inout ProtobufReader) throws(MessageError) {
        let before = reader.remaining
        let fields = try reader.message { (reader) throws(MessageError) in try DeliveryFields(&reader) }
        deliveryCount += 1
        guard deliveryCount <= PushJob.maximumDeliveries, deliveryFault == nil else { return }
        if deliveries.isEmpty {
            // They are alike in length, as a rule.
            deliveries.reserveCapacity(min(PushJob.maximumDeliveries, 1 + reader.remaining / (before - reader.remaining)))
        }
        do throws(MessageError) {
            deliveries.append(try PushJob.Delivery(fields, reader))
        } catch {
            deliveryFault = error
        }
    }
}

private struct DeliveryFields {
    var idHigh: UInt64 = 0
    var idLow: UInt64 = 0
    var token = 0..<0
    var environment: Int32 = 0
    var installationHigh: UInt64 = 0
    var installationLow: UInt64 = 0
    var ownerEpoch: Int64 = 0
    var environmentTrial: Int32 = 0

    init(_ reader: inout ProtobufReader) throws(MessageError) {
        while let tag = try reader.next() {
            switch (tag.field, tag.type) {
            case (1, .fixed64): idHigh = try reader.fixed64()
            case (2, .fixed64): idLow = try reader.fixed64()
            case (3, .bytes): token = try reader.range()
            case (4, .varint): environment = Int32(truncatingIfNeeded: try reader.varint())
            case (5, .fixed64): installationHigh = try reader.fixed64()
            case (6, .fixed64): installationLow = try reader.fixed64()
            case (7, .varint): ownerEpoch = Int64(bitPattern: try reader.varint())
            case (8, .varint): environmentTrial = Int32(truncatingIfNeeded: try reader.varint())
            default: try reader.skip(tag)
            }
        }
    }
}

extension PushJob.Delivery {
    fileprivate init(_ fields: DeliveryFields, _ reader: ProtobufReader) throws(MessageError) {
        self.init(
            id: try Wire.id(fields.idHigh, fields.idLow, "deliveries.id"),
            token: try Wire.known(DeviceToken(bytes: reader.bytes(fields.token)), "deliveries.token"),
            environment: try Wire.known(
                WireEnvironment(rawValue: Int(fields.environment)).flatMap(APNsEnvironment.init), "deliveries.environment"),
            installation: try Wire.id(fields.installationHigh, fields.installationLow, "deliveries.installation"),
            ownerEpoch: fields.ownerEpoch,
            environmentTrial: PushJob.EnvironmentTrial(WireEnvironmentTrial(rawValue: Int(fields.environmentTrial)) ?? .none))
    }
}

/// proto3 knows no required fields: what is missing arrives as zero or empty, and is refused here.
private enum Wire {
    static func id(_ high: UInt64, _ low: UInt64, _ field: String) throws(MessageError) -> PushID {
        guard high | low != 0 else { throw MessageError(.invalidField(field), "missing") }
        return PushID(high: high, low: low)
    }

    static func known<Value>(_ value: Value?, _ field: String) throws(MessageError) -> Value {
        guard let value else { throw MessageError(.invalidField(field), "missing, or not one that this program knows") }
        return value
    }
}
