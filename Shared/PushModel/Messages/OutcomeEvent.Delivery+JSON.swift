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
