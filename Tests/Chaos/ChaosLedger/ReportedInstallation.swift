package import PushModel
import StrictJSON

/// An installation as the API reports it at the end.
package struct ReportedInstallation: Sendable, Equatable {
    package var app: String
    package var id: PushID
    /// false if the API answers 404: never registered, or deregistered.
    package var isRegistered: Bool
    /// nil: no user is signed in.
    package var user: String?
    package var epoch: Int64?
    package var tokens: [ReportedToken]

    package init(app: String, id: PushID, isRegistered: Bool, user: String?, epoch: Int64?, tokens: [ReportedToken]) {
        self.app = app
        self.id = id
        self.isRegistered = isRegistered
        self.user = user
        self.epoch = epoch
        self.tokens = tokens
    }

    typealias Field = ReportedRecord.Field

    func write(to object: inout JSONWriter) {
        object.field(Field.app, app)
        object.field(Field.id, id)
        object.field(Field.isRegistered, isRegistered)
        object.field(Field.user, user)
        object.field(Field.epoch, epoch)
        object.array(Field.tokens.rawValue) { list in for token in tokens { token.write(to: &list) } }
    }

    init(_ found: ReportedFields, _ scanner: JSONScanner) throws(JSONError) {
        self.init(
            app: try scanner.require(found.texts[.app], Field.app), id: try scanner.require(found.ids[.id], Field.id),
            isRegistered: try scanner.require(found.truths[.isRegistered], Field.isRegistered), user: found.texts[.user],
            epoch: found.numbers[.epoch], tokens: found.tokens)
    }
}

/// One token of an installation, alive or retired.
package struct ReportedToken: Sendable, Equatable {
    /// In full (`tokens=full`); the checker never shows it.
    package var token: DeviceToken
    package var isActive: Bool
    /// Why it was retired, as the API spells it: `gone`, `rejected`, `replaced`, `removed`, `deregistered`, `stale`.
    package var reason: String?
    package var registeredAt: Int64?
    package var retiredAt: Int64?

    package init(token: DeviceToken, isActive: Bool, reason: String? = nil, registeredAt: Int64? = nil, retiredAt: Int64? = nil) {
        self.token = token
        self.isActive = isActive
        self.reason = reason
        self.registeredAt = registeredAt
        self.retiredAt = retiredAt
    }

    private enum Field: String, CaseIterable {
        case token
        case isActive = "active"
        case reason
        case registeredAt = "registered_at"
        case retiredAt = "retired_at"
    }
    private static let fields = RecordFields<Field>()

    func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.plainField(Field.token.rawValue, token.appendHex)
            object.field(Field.isActive, isActive)
            object.field(Field.reason, reason)
            object.field(Field.registeredAt, registeredAt)
            object.field(Field.retiredAt, retiredAt)
        }
    }

    init(from scanner: inout JSONScanner) throws(JSONError) {
        var (token, isActive, reason): (DeviceToken?, Bool?, String?) = (nil, nil, nil)
        var (registeredAt, retiredAt): (Int64?, Int64?) = (nil, nil)
        try Self.fields.read(&scanner) { (field, scanner) throws(JSONError) in
            switch field {
            case .token: token = try scanner.deviceToken(field)
            case .isActive: isActive = try scanner.bool()
            case .reason: reason = try scanner.string()
            case .registeredAt: registeredAt = try scanner.integer()
            case .retiredAt: retiredAt = try scanner.integer()
            }
        }
        self.init(
            token: try scanner.require(token, Field.token), isActive: try scanner.require(isActive, Field.isActive), reason: reason,
            registeredAt: registeredAt, retiredAt: retiredAt)
    }
}

/// An entry `retired` of an installation's history (`GET …/installations/{id}/history`).
package struct ReportedRetirement: Sendable, Equatable {
    package var app: String
    package var installation: PushID
    /// The token's last six digits, as the API shows them: `…2c3d4e`.
    package var hint: String
    /// `gone`, `rejected`, …: the reason from APNs or the registry, as the API spells it.
    package var reason: String
    package var status: Int?
    package var apnsTimestamp: Int64?
    package var delivery: PushID?
    package var at: Int64

    package init(
        app: String, installation: PushID, hint: String, reason: String, status: Int? = nil, apnsTimestamp: Int64? = nil,
        delivery: PushID? = nil, at: Int64
    ) {
        self.app = app
        self.installation = installation
        self.hint = hint
        self.reason = reason
        self.status = status
        self.apnsTimestamp = apnsTimestamp
        self.delivery = delivery
        self.at = at
    }

    typealias Field = ReportedRecord.Field

    func write(to object: inout JSONWriter) {
        object.field(Field.app, app)
        object.field(Field.installation, installation)
        object.field(Field.hint, hint)
        object.field(Field.reason, reason)
        object.field(Field.status, status)
        object.field(Field.apnsTimestamp, apnsTimestamp)
        object.field(Field.delivery, delivery)
        object.field(Field.at, at)
    }

    init(_ found: ReportedFields, _ scanner: JSONScanner) throws(JSONError) {
        self.init(
            app: try scanner.require(found.texts[.app], Field.app),
            installation: try scanner.require(found.ids[.installation], Field.installation),
            hint: try scanner.require(found.texts[.hint], Field.hint), reason: try scanner.require(found.texts[.reason], Field.reason),
            status: found.numbers[.status].map { Int($0) }, apnsTimestamp: found.numbers[.apnsTimestamp], delivery: found.ids[.delivery],
            at: try scanner.require(found.numbers[.at], Field.at))
    }
}
