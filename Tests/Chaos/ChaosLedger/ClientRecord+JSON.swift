package import StrictJSON

extension ClientRecord {
    private enum Field: String, CaseIterable {
        case id, kind, app, service
        case sentAt = "sent_at"
        case answeredAt = "answered_at"
        case status
        case retryAfter = "retry_after"
        case gaveUpAt = "gave_up_at"
        case user, users, installation, except, tokens
        case startTokens = "start_tokens"
        case target = "to"
        case tags, lane, key
        case notBefore = "not_before"
        case expiresAt = "expires_at"
        case ttlSeconds = "ttl_seconds"
        case marker, activity, event, timestamp, epoch, fence, notification, hold
    }
    private static let fields = RecordFields<Field>()

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field(Field.id, id)
            object.field(Field.kind, kind)
            object.field(Field.app, app)
            object.field(Field.service, service)
            object.field(Field.sentAt, sentAt)
            object.field(Field.answeredAt, answeredAt)
            object.field(Field.status, status)
            object.field(Field.retryAfter, retryAfter)
            object.field(Field.gaveUpAt, gaveUpAt)
            object.field(Field.user, user)
            if !users.isEmpty { object.field(Field.users.rawValue, users) }
            object.field(Field.installation, installation)
            object.field(Field.except, except)
            object.field(Field.tokens, tokens)
            object.field(Field.startTokens, startTokens)
            object.field(Field.target, target)
            object.field(Field.tags, tags)
            object.field(Field.lane, lane)
            object.field(Field.key, key)
            object.field(Field.notBefore, notBefore)
            object.field(Field.expiresAt, expiresAt)
            object.field(Field.ttlSeconds, ttlSeconds)
            object.field(Field.marker, marker)
            object.field(Field.activity, activity)
            object.field(Field.event, event)
            object.field(Field.timestamp, timestamp)
            object.field(Field.epoch, epoch)
            object.field(Field.fence, fence)
            object.field(Field.notification, notification)
            object.field(Field.hold, hold)
        }
    }

    package init(from scanner: inout JSONScanner) throws(JSONError) {
        self.init(id: 0, kind: .read, app: nil, sentAt: 0)
        var missing: Set<Field> = [.id, .kind, .sentAt]
        try Self.fields.read(&scanner) { (field, scanner) throws(JSONError) in
            switch field {
            case .id: id = try scanner.integer()
            case .kind: kind = try scanner.choice(field)
            case .sentAt: sentAt = try scanner.integer()
            default: return try read(field, &scanner)
            }
            missing.remove(field)
        }
        if let field = missing.first { throw scanner.error(inField: field.rawValue, "missing") }
    }

    private mutating func read(_ field: Field, _ scanner: inout JSONScanner) throws(JSONError) {
        switch field {
        case .id, .kind, .sentAt: break
        case .app: app = try scanner.string()
        case .service: service = try scanner.string()
        case .answeredAt: answeredAt = try scanner.integer()
        case .status: status = try scanner.count(field)
        case .retryAfter: retryAfter = try scanner.count(field)
        case .gaveUpAt: gaveUpAt = try scanner.integer()
        case .user: user = try scanner.string()
        case .users: users = try scanner.list { (scanner) throws(JSONError) in try scanner.string() }
        case .installation: installation = try scanner.pushID(field)
        case .except: except = try scanner.pushID(field)
        case .tokens: tokens = try scanner.list { (scanner) throws(JSONError) in try scanner.deviceToken(field) }
        case .startTokens: startTokens = try scanner.list { (scanner) throws(JSONError) in try scanner.deviceToken(field) }
        case .target: target = try scanner.choice(field, of: Target.self)
        case .tags: tags = try scanner.string()
        case .lane: lane = try scanner.choice(field)
        case .key: key = try scanner.string()
        case .notBefore: notBefore = try scanner.integer()
        case .expiresAt: expiresAt = try scanner.integer()
        case .ttlSeconds: ttlSeconds = try scanner.count(field)
        case .marker: marker = try scanner.integer()
        case .activity: activity = try scanner.string()
        case .event: event = try scanner.choice(field, of: ActivityEvent.self)
        case .timestamp: timestamp = try scanner.integer()
        case .epoch: epoch = try scanner.integer()
        case .fence: fence = try scanner.choice(field, of: Fence.self)
        case .notification: notification = try scanner.pushID(field)
        case .hold: hold = try scanner.pushID(field)
        }
    }
}
