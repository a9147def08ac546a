package import PushModel
package import StrictJSON

/// `devices.ndjson`: the events of a device. A 410 is right only after one of these, and only until the next `reinstall`.
package struct DeviceRecord: LedgerRecord, Equatable {
    package enum Event: String, Sendable, CaseIterable {
        /// From then on APNs answers 410 with that moment.
        case uninstall
        /// The token expired: 410 too.
        case expire
        /// The token works again.
        case reinstall
    }

    package var token: DeviceToken
    package var event: Event
    /// The moment in APNs' answer, in microseconds and with the precision of milliseconds.
    package var at: Int64

    package init(token: DeviceToken, event: Event, at: Int64) {
        self.token = token
        self.event = event
        self.at = at
    }

    private enum Field: String, CaseIterable { case token, event, at }
    private static let fields = RecordFields<Field>()

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.plainField(Field.token.rawValue, token.appendHex)
            object.field(Field.event, event)
            object.field(Field.at, at)
        }
    }

    package init(from scanner: inout JSONScanner) throws(JSONError) {
        var (token, event, at): (DeviceToken?, Event?, Int64?) = (nil, nil, nil)
        try Self.fields.read(&scanner) { (field, scanner) throws(JSONError) in
            switch field {
            case .token: token = try scanner.deviceToken(field)
            case .event: event = try scanner.choice(field, of: Event.self)
            case .at: at = try scanner.integer()
            }
        }
        self.init(
            token: try scanner.require(token, Field.token), event: try scanner.require(event, Field.event),
            at: try scanner.require(at, Field.at))
    }
}
