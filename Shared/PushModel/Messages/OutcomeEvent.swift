import StrictJSON

/// One message in `push.outcomes`: deliveries of one app that ended in one class. A CloudEvents 1.0 event.
///
/// Deliveries of many jobs may share an event: its size is bounded by ``maximumDeliveries``, not by the job.
package struct OutcomeEvent: Equatable, Sendable {
    package static let currentVersion = 1
    package static let maximumDeliveries = 500
    package static let type = "push.delivery.outcome.v1"

    /// CloudEvents `id`: unique for this event.
    package var id: PushID
    /// CloudEvents `source`: `/push/dispatcher/<instance>`, or `/push/token-service` for deliveries that ended before they were published.
    package var source: String
    /// CloudEvents `time`, UNIX milliseconds.
    package var time: Int64
    package var app: AppSlug
    package var outcome: OutcomeClass
    /// False: the delivery will be tried again, and another event follows.
    package var isFinal: Bool
    package var deliveries: [Delivery]

    package struct Delivery: Equatable, Sendable {
        package var id: PushID
        package var notification: PushID
        package var installation: PushID
        /// 1 for the first attempt.
        package var attempt: Int
        /// The epoch of the owner that the delivery was for; nil if the event is not a dispatcher's.
        package var ownerEpoch: Int64?
        /// APNs' status; nil where it said nothing.
        package var status: Int?
        /// APNs' reason, verbatim, or our own in `snake_case` if APNs was not asked.
        package var reason: String?
        /// APNs' `timestamp` of a 410, UNIX milliseconds.
        package var timestamp: Int64?
        /// When the request left, UNIX milliseconds; nil if it did not.
        package var sentAt: Int64?
        /// If `isFinal` is false: the earliest time of the next attempt, UNIX milliseconds.
        package var retryAt: Int64?
        /// The environment that answered, if the token was registered for the other one.
        package var environment: APNsEnvironment?
        /// APNs' `apns-unique-id`, which only the sandbox sends.
        package var apnsUniqueID: String?
        /// The trace of the attempt (W3C Trace Context), if it is sampled.
        package var traceparent: String?

        package init(
            id: PushID, notification: PushID, installation: PushID, attempt: Int, ownerEpoch: Int64? = nil, status: Int? = nil,
            reason: String? = nil, timestamp: Int64? = nil, sentAt: Int64? = nil, retryAt: Int64? = nil,
            environment: APNsEnvironment? = nil,
            apnsUniqueID: String? = nil, traceparent: String? = nil
        ) {
            self.id = id
            self.notification = notification
            self.installation = installation
            self.attempt = attempt
            self.ownerEpoch = ownerEpoch
            self.status = status
            self.reason = reason
            self.timestamp = timestamp
            self.sentAt = sentAt
            self.retryAt = retryAt
            self.environment = environment
            self.apnsUniqueID = apnsUniqueID
            self.traceparent = traceparent
        }
    }

    package init(
        id: PushID, source: String, time: Int64, app: AppSlug, outcome: OutcomeClass, isFinal: Bool, deliveries: [Delivery]
    ) {
        self.id = id
        self.source = source
        self.time = time
        self.app = app
        self.outcome = outcome
        self.isFinal = isFinal
        self.deliveries = deliveries
    }

    /// `<app>.<class>`: subscribers bind to it.
    package var routingKey: String { "\(app.text).\(outcome.rawValue)" }
}

/// CloudEvents 1.0 in structured mode (AMQP binding section 3.2, JSON format section 3). Fields are described in PushModel.docc, Contracts.
extension OutcomeEvent {
    package static let contentType = "application/cloudevents+json"

    package func encoded() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 320 + deliveries.count * 288)
        writer.cloudEvent(id: id, source: source, type: Self.type, time: time) { writer in
            writer.field("v", Self.currentVersion)
            writer.field("app", app.text)
            writer.field("class", outcome.rawValue)
            writer.field("final", isFinal)
            writer.array("deliveries") { writer in
                for delivery in deliveries { delivery.write(to: &writer) }
            }
        }
        return writer.bytes
    }

    /// - Throws: ``MessageError``, for any bytes that are not an outcome event of a version up to ``currentVersion``.
    package init(decoding bytes: [UInt8]) throws(MessageError) {
        let event: Envelope
        do throws(JSONError) {
            var scanner = JSONScanner(bytes)
            event = try Envelope(from: &scanner)
            try scanner.finish()
            try self.init(event, scanner)
        } catch {
            throw MessageVersion.explain(error, bytes, version: ["data", "v"], atMost: Self.currentVersion)
        }
        try MessageVersion.check(event.data?.version ?? 0, atMost: Self.currentVersion)
        guard event.type == Self.type else { throw MessageError(.invalidField("type"), "expected \(Self.type)") }
        guard event.specversion == "1.0" else { throw MessageError(.invalidField("specversion"), "expected 1.0") }
    }

    private init(_ event: Envelope, _ scanner: JSONScanner) throws(JSONError) {
        let data = try scanner.require(event.data, "data")
        self.init(
            id: try scanner.require(event.id, "id"), source: try scanner.require(event.source, "source"),
            time: try scanner.require(event.time, "time"), app: try scanner.require(data.app, "app"),
            outcome: try scanner.require(data.outcome, "class"), isFinal: try scanner.require(data.isFinal, "final"),
            deliveries: try scanner.require(data.deliveries, "deliveries"))
    }

    /// The CloudEvents attributes; unknown extension attributes are passed over.
    private struct Envelope {
        var specversion: String?
        var id: PushID?
        var source: String?
        var type: String?
        var time: Int64?
        var data: Data?

        private enum Field: String, CaseIterable {
            case specversion, id, source, type, time, data

            static let table = FieldTable(Field.self)
        }

        init(from scanner: inout JSONScanner) throws(JSONError) {
            var place = try scanner.fields(Field.table.names)
            while let field = try Field.table.next(in: &scanner, &place) {
                switch field {
                case .specversion: specversion = try scanner.string()
                case .id: id = try scanner.pushID("id")
                case .source: source = try scanner.string()
                case .type: type = try scanner.string()
                case .time:
                    time = RFC3339.milliseconds(try scanner.string())
                    if time == nil { throw scanner.error(inField: "time", "expected a date and time of RFC 3339") }
                case .data: data = try Data(from: &scanner)
                }
            }
        }
    }

    private struct Data {
        var version = 0
        var app: AppSlug?
        var outcome: OutcomeClass?
        var isFinal: Bool?
        var deliveries: [Delivery]?

        private enum Field: String, CaseIterable {
            case version = "v"
            case app
            case outcome = "class"
            case isFinal = "final"
            case deliveries

            static let table = FieldTable(Field.self)
        }

        init(from scanner: inout JSONScanner) throws(JSONError) {
            var place = try scanner.fields(Field.table.names)
            while let field = try Field.table.next(in: &scanner, &place) {
                switch field {
                case .version: version = try scanner.integer("v", in: 0...MessageVersion.limit)
                case .app: app = try scanner.appSlug("app")
                case .outcome: outcome = try scanner.choice("class", of: OutcomeClass.self)
                case .isFinal: isFinal = try scanner.bool()
                case .deliveries: deliveries = try Self.deliveries(from: &scanner)
                }
            }
        }

        private static func deliveries(from scanner: inout JSONScanner) throws(JSONError) -> [Delivery] {
            var deliveries: [Delivery] = []
            try scanner.beginArray()
            while try scanner.nextElement() {
                guard deliveries.count < OutcomeEvent.maximumDeliveries else {
                    throw scanner.error(inField: "deliveries", "more than \(OutcomeEvent.maximumDeliveries)")
                }
                deliveries.append(try Delivery(from: &scanner))
            }
            return deliveries
        }
    }
}
