import PushModel
package import StrictJSON

/// `reported.ndjson`: the API's answers at the end.
package enum ReportedRecord: LedgerRecord, Equatable {
    case notification(ReportedNotification)
    case installation(ReportedInstallation)
    case retirement(ReportedRetirement)

    private enum Kind: String { case notification, installation, retirement }

    enum Field: String, CaseIterable {
        case kind, app, id, state, receipts, total, pending, counts, deliveries
        case isComplete = "complete"
        case isRegistered = "registered"
        case user, epoch, tokens, installation, hint, purpose, environment, reason, status, delivery
        case apnsTimestamp = "apns_timestamp"
        case at
    }
    static let fields = RecordFields<Field>()

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            switch self {
            case .notification(let notification):
                object.field(Field.kind, Kind.notification)
                notification.write(to: &object)
            case .installation(let installation):
                object.field(Field.kind, Kind.installation)
                installation.write(to: &object)
            case .retirement(let retirement):
                object.field(Field.kind, Kind.retirement)
                retirement.write(to: &object)
            }
        }
    }

    package init(from scanner: inout JSONScanner) throws(JSONError) {
        var kind: Kind?
        var found = ReportedFields()
        try Self.fields.read(&scanner) { (field, scanner) throws(JSONError) in
            if field == .kind { kind = try scanner.choice(field, of: Kind.self) } else { try found.read(field, &scanner) }
        }
        self =
            switch try scanner.require(kind, Field.kind) {
            case .notification: .notification(try ReportedNotification(found, scanner))
            case .installation: .installation(try ReportedInstallation(found, scanner))
            case .retirement: .retirement(try ReportedRetirement(found, scanner))
            }
    }
}

/// The fields of a line, before its kind is known.
struct ReportedFields {
    var texts: [ReportedRecord.Field: String] = [:]
    var ids: [ReportedRecord.Field: PushID] = [:]
    var numbers: [ReportedRecord.Field: Int64] = [:]
    var truths: [ReportedRecord.Field: Bool] = [:]
    var counts: [ReportedCount] = []
    var deliveries: [ReportedDelivery] = []
    var tokens: [ReportedToken] = []

    mutating func read(_ field: ReportedRecord.Field, _ scanner: inout JSONScanner) throws(JSONError) {
        switch field {
        case .kind: break
        case .app, .state, .receipts, .user, .hint, .purpose, .environment, .reason: texts[field] = try scanner.string()
        case .id, .installation, .delivery: ids[field] = try scanner.pushID(field)
        case .total, .pending, .epoch, .status, .apnsTimestamp, .at: numbers[field] = try scanner.integer()
        case .isComplete, .isRegistered: truths[field] = try scanner.bool()
        case .counts: counts = try scanner.list { (scanner) throws(JSONError) in try ReportedCount(from: &scanner) }
        case .deliveries: deliveries = try scanner.list { (scanner) throws(JSONError) in try ReportedDelivery(from: &scanner) }
        case .tokens: tokens = try scanner.list { (scanner) throws(JSONError) in try ReportedToken(from: &scanner) }
        }
    }
}
