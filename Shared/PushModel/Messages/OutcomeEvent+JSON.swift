import StrictJSON

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
