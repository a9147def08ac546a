package import PushModel
package import StrictJSON

/// `shown.ndjson`: one Live Activity of one device at the end, as the simulated device shows it.
package struct ShownRecord: LedgerRecord, Equatable {
    package enum State: String, Sendable, CaseIterable {
        case active, stale, ended, dismissed
    }

    package var app: String
    package var installation: PushID
    package var activity: String
    package var state: State
    /// Of the notification whose content state it shows.
    package var marker: Int64?
    /// The person has dismissed it.
    package var isSwiped: Bool

    package init(app: String, installation: PushID, activity: String, state: State, marker: Int64?, isSwiped: Bool = false) {
        self.app = app
        self.installation = installation
        self.activity = activity
        self.state = state
        self.marker = marker
        self.isSwiped = isSwiped
    }

    private enum Field: String, CaseIterable {
        case app, installation, activity, state, marker
        case isSwiped = "swiped"
    }
    private static let fields = RecordFields<Field>()

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field(Field.app, app)
            object.field(Field.installation, installation)
            object.field(Field.activity, activity)
            object.field(Field.state, state)
            object.field(Field.marker, marker)
            object.field(Field.isSwiped, isSwiped)
        }
    }

    package init(from scanner: inout JSONScanner) throws(JSONError) {
        var (app, installation, activity): (String?, PushID?, String?) = (nil, nil, nil)
        var (state, marker, isSwiped): (State?, Int64?, Bool) = (nil, nil, false)
        try Self.fields.read(&scanner) { (field, scanner) throws(JSONError) in
            switch field {
            case .app: app = try scanner.string()
            case .installation: installation = try scanner.pushID(field)
            case .activity: activity = try scanner.string()
            case .state: state = try scanner.choice(field, of: State.self)
            case .marker: marker = try scanner.integer()
            case .isSwiped: isSwiped = try scanner.bool()
            }
        }
        self.init(
            app: try scanner.require(app, Field.app), installation: try scanner.require(installation, Field.installation),
            activity: try scanner.require(activity, Field.activity), state: try scanner.require(state, Field.state), marker: marker,
            isSwiped: isSwiped)
    }
}
