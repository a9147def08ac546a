/// Reads jobs one after another. Most jobs equal the one before but for ids, token and payload: such texts are parsed once.
package struct PushJobDecoder: Sendable {
    fileprivate var app = Known<AppSlug>()
    fileprivate var pushType = Known<PushType>()
    fileprivate var topic = Known<String>()

    package init() {}

    /// Decodes a job as ``PushJob/init(decoding:)`` does.
    package mutating func decode(_ bytes: [UInt8]) throws(MessageError) -> PushJob {
        guard bytes.count <= PushJob.maximumBytes else { throw MessageError(.malformed, "longer than \(PushJob.maximumBytes) bytes") }
        let fields = try JobFields(bytes, &self)
        try MessageVersion.check(Int(fields.version), atMost: PushJob.currentVersion)
        return try PushJob(fields)
    }

    /// Decodes the deliveries of a job without any other field.
    static func deliveries(_ bytes: [UInt8]) throws(MessageError) -> [PushJob.Delivery] {
        var decoder = PushJobDecoder()
        let fields = try JobFields(bytes, &decoder)
        if let fault = fields.deliveryFault { throw fault }
        guard fields.deliveryCount == fields.deliveries.count else {
            throw MessageError(.invalidField("deliveries"), "more than \(PushJob.maximumDeliveries)")
        }
        return fields.deliveries
    }

    /// The last text of one field, and its value; nil: this program does not know it.
    fileprivate struct Known<Value: Sendable>: Sendable {
        private var text = ""
        private(set) var value: Value?

        /// - Throws: where it is not UTF-8.
        mutating func read(_ range: Range<Int>, of bytes: [UInt8], _ parse: (String) -> Value?) throws(MessageError) -> Value? {
            if range.isEmpty || !Self.isSame(text.utf8.span, bytes.span, range) {
                text = try PushJobDecoder.text(range, of: bytes)
                value = parse(text)
            }
            return value
        }

        private static func isSame(_ text: Span<UInt8>, _ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
            guard text.count == range.count else { return false }
            for index in text.indices where text[index] != bytes[range.lowerBound + index] { return false }
            return true
        }
    }

    fileprivate static func text(_ range: Range<Int>, of bytes: [UInt8]) throws(MessageError) -> String {
        guard let text = String(validating: bytes[range], as: UTF8.self) else { throw ProtobufReader.malformed }
        return text
    }
}

/// Reads the wire form of `push_job.proto`, whose numbers are repeated here: the dispatcher decodes every job, and an object for each part
/// of a job would cost too much.
extension PushJob {
    /// Unknown fields are passed over.
    /// - Throws: ``MessageError``, for any bytes that are not a job of a version up to ``currentVersion``.
    package init(decoding bytes: [UInt8]) throws(MessageError) {
        var decoder = PushJobDecoder()
        self = try decoder.decode(bytes)
    }

    /// UNIX milliseconds. All sums and differences of them fit.
    private static let moments: ClosedRange<Int64> = 0...253_402_300_799_999

    fileprivate init(_ fields: borrowing JobFields) throws(MessageError) {
        guard fields.deliveryCount <= Self.maximumDeliveries else {
            throw MessageError(.invalidField("deliveries"), "more than \(Self.maximumDeliveries)")
        }
        guard (1...10).contains(fields.priority) else { throw MessageError(.invalidField("priority"), "from 1 to 10") }
        guard (0...1_000_000).contains(fields.attempt) else { throw MessageError(.invalidField("attempt"), "from 0 to 1,000,000") }
        for (moment, name) in [(fields.acceptedAt, "accepted_at_ms"), (fields.expiresAt, "expires_at_ms")]
        where !Self.moments.contains(moment) {
            throw MessageError(.invalidField(name), "not a moment before the year 10000")
        }
        guard let topic = fields.topic, !topic.isEmpty else { throw MessageError(.invalidField("topic"), "missing") }
        guard !fields.payload.isEmpty else { throw MessageError(.invalidField("payload"), "missing") }
        self.init(
            notification: try Wire.id(fields.notificationHigh, fields.notificationLow, "notification"),
            original: fields.originalHigh | fields.originalLow == 0 ? nil : PushID(high: fields.originalHigh, low: fields.originalLow),
            app: try Wire.known(fields.app, "app"),
            lane: try Wire.known(WireLane(rawValue: Int(fields.lane)).flatMap(Lane.init), "lane"),
            pushType: try Wire.known(fields.pushType, "push_type"), topic: topic,
            priority: Int(fields.priority), collapseID: fields.collapseID, apnsExpiration: fields.apnsExpiration,
            expiresAt: fields.expiresAt, acceptedAt: fields.acceptedAt, attempt: Int(fields.attempt),
            onUnknown: try Wire.known(WireOnUnknown(rawValue: Int(fields.onUnknown)).flatMap(OnUnknown.init), "on_unknown"),
            payload: fields.payload,
            deliveries: fields.deliveries, isBroadcast: fields.isBroadcast)
        if let fault = fields.deliveryFault { throw fault }
        guard isBroadcast || !fields.lacksInstallation else { throw MessageError(.invalidField("deliveries.installation"), "missing") }
    }
}

/// The content of the message, not yet checked: its version must be known before any other field is called wrong.
private struct JobFields: ~Copyable {
    var version: Int32 = 0
    var notificationHigh: UInt64 = 0
    var notificationLow: UInt64 = 0
    /// Both 0 where it is missing.
    var originalHigh: UInt64 = 0
    var originalLow: UInt64 = 0
    /// Nil where it is missing, or none.
    var app: AppSlug?
    var lane: Int32 = 0
    var pushType: PushType?
    var topic: String?
    var priority: Int32 = 0
    var collapseID: String?
    var apnsExpiration: Int64?
    var expiresAt: Int64 = 0
    var acceptedAt: Int64 = 0
    var attempt: Int32 = 0
    var onUnknown: Int32 = 0
    var payload: [UInt8] = []
    var deliveries: [PushJob.Delivery] = []
    var isBroadcast = false
    /// Some delivery is for no installation. Whether it may is known at the end: ``isBroadcast`` may follow the deliveries.
    var lacksInstallation = false
    /// Kept and dropped deliveries together.
    var deliveryCount = 0
    /// The first fault of a delivery.
    var deliveryFault: MessageError?

    init(_ bytes: [UInt8], _ known: inout PushJobDecoder) throws(MessageError) {
        let source = bytes.span
        var reader = ProtobufReader(count: bytes.count)
        while let tag = try reader.next(source) {
            switch (tag.field, tag.type) {
            case (1, .varint): version = Int32(truncatingIfNeeded: try reader.varint(source))
            case (2, .fixed64): notificationHigh = try reader.fixed64(source)
            case (3, .fixed64): notificationLow = try reader.fixed64(source)
            case (4, .bytes): app = try known.app.read(try reader.range(source), of: bytes) { AppSlug($0) }
            case (5, .varint): lane = Int32(truncatingIfNeeded: try reader.varint(source))
            case (6, .bytes): pushType = try known.pushType.read(try reader.range(source), of: bytes) { PushType(rawValue: $0) }
            case (7, .bytes): topic = try known.topic.read(try reader.range(source), of: bytes) { $0 }
            case (8, .varint): priority = Int32(truncatingIfNeeded: try reader.varint(source))
            case (9, .bytes): collapseID = try PushJobDecoder.text(try reader.range(source), of: bytes)
            case (10, .varint): apnsExpiration = Int64(bitPattern: try reader.varint(source))
            case (11, .varint): expiresAt = Int64(bitPattern: try reader.varint(source))
            case (12, .varint): acceptedAt = Int64(bitPattern: try reader.varint(source))
            case (13, .varint): attempt = Int32(truncatingIfNeeded: try reader.varint(source))
            case (14, .varint): onUnknown = Int32(truncatingIfNeeded: try reader.varint(source))
            case (15, .bytes): payload = Array(bytes[try reader.range(source)])
            case (16, .bytes): try add(&reader, source, bytes)
            case (17, .varint): isBroadcast = try reader.varint(source) != 0
            case (18, .fixed64): originalHigh = try reader.fixed64(source)
            case (19, .fixed64): originalLow = try reader.fixed64(source)
            default: try reader.skip(tag, source)
            }
        }
    }

    private mutating func add(_ reader: inout ProtobufReader, _ source: Span<UInt8>, _ bytes: [UInt8]) throws(MessageError) {
        let before = reader.remaining
        let outerEnd = try reader.enter(source)
        let fields = try DeliveryFields(&reader, source)
        reader.leave(outerEnd)
        deliveryCount += 1
        guard deliveryCount <= PushJob.maximumDeliveries, deliveryFault == nil else { return }
        if deliveries.isEmpty {
            // They are alike in length, as a rule.
            deliveries.reserveCapacity(min(PushJob.maximumDeliveries, 1 + reader.remaining / (before - reader.remaining)))
        }
        do throws(MessageError) {
            deliveries.append(try PushJob.Delivery(fields, bytes))
            if fields.installationHigh | fields.installationLow == 0 { lacksInstallation = true }
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
    var earlierOutcome: Int32 = 0

    init(_ reader: inout ProtobufReader, _ source: Span<UInt8>) throws(MessageError) {
        while let tag = try reader.next(source) {
            switch (tag.field, tag.type) {
            case (1, .fixed64): idHigh = try reader.fixed64(source)
            case (2, .fixed64): idLow = try reader.fixed64(source)
            case (3, .bytes): token = try reader.range(source)
            case (4, .varint): environment = Int32(truncatingIfNeeded: try reader.varint(source))
            case (5, .fixed64): installationHigh = try reader.fixed64(source)
            case (6, .fixed64): installationLow = try reader.fixed64(source)
            case (7, .varint): ownerEpoch = Int64(bitPattern: try reader.varint(source))
            case (8, .varint): environmentTrial = Int32(truncatingIfNeeded: try reader.varint(source))
            case (9, .varint): earlierOutcome = Int32(truncatingIfNeeded: try reader.varint(source))
            default: try reader.skip(tag, source)
            }
        }
    }
}

extension PushJob.Delivery {
    fileprivate init(_ fields: DeliveryFields, _ bytes: [UInt8]) throws(MessageError) {
        self.init(
            id: try Wire.id(fields.idHigh, fields.idLow, "deliveries.id"),
            token: try Wire.known(DeviceToken(bytes: Array(bytes[fields.token])), "deliveries.token"),
            environment: try Wire.known(
                WireEnvironment(rawValue: Int(fields.environment)).flatMap(APNsEnvironment.init), "deliveries.environment"),
            installation: PushID(high: fields.installationHigh, low: fields.installationLow),
            ownerEpoch: fields.ownerEpoch,
            environmentTrial: PushJob.EnvironmentTrial(WireEnvironmentTrial(rawValue: Int(fields.environmentTrial)) ?? .none),
            earlierOutcome: PushJob.EarlierOutcome(WireEarlierOutcome(rawValue: Int(fields.earlierOutcome)) ?? .none))
    }
}

/// proto3 has no required fields: a missing one arrives as zero or empty, and is refused here.
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
