import OpenSSL
package import PushModel
import TokenServiceKit

/// What the audit trail records: every change that needs the scope `admin`, and every answer that shows tokens or a person's data in full.
///
/// An action stays out of the trail if it comes at the rate of an app's traffic: registrations, notifications, device credentials. Metrics
/// count those.
package enum AuditAction: String, CaseIterable, Sendable {
    case appCreated = "app.created"
    case appChanged = "app.changed"
    case keyCreated = "key.created"
    case keyRotated = "key.rotated"
    case keyRevoked = "key.revoked"
    case webhookCreated = "webhook.created"
    case webhookChanged = "webhook.changed"
    case webhookDeleted = "webhook.deleted"
    case webhookRotated = "webhook.rotated"
    case webhookPinged = "webhook.pinged"
    case webhookRedelivered = "webhook.redelivered"
    case holdSet = "hold.set"
    case holdLifted = "hold.lifted"
    case deadLettersReplayed = "dead_letters.replayed"
    case deadLettersDropped = "dead_letters.dropped"
    case quarantineRestored = "quarantine.restored"
    case userErased = "user.erased"
    case userExported = "user.exported"
    case installationsExported = "installations.exported"
    /// An answer to `tokens=full`.
    case tokensRead = "tokens.read"
}

/// The caller that an entry names.
package enum AuditActor: Equatable, Sendable {
    /// The id of an API key.
    case key(String)
    /// The token service by itself: it made a key known that a setting names.
    case service

    var keyID: String? {
        switch self {
        case .key(let id): id
        case .service: nil
        }
    }
}

/// One line of the audit trail. It holds no secret and no user's name.
package struct AuditEntry: Equatable, Sendable {
    /// Grows with time.
    package let id: Int64
    /// UNIX milliseconds.
    package let at: Int64
    package let action: AuditAction
    /// The id of the API key; nil: the service by itself.
    package let key: String?
    package let keyName: String?
    /// Nil: no single app.
    package let app: AppSlug?
    package let object: String?
    package let count: Int64?

    /// The object of an action on a user: a digest of the name, so that the trail holds no name and still answers whether it was this user.
    package static func object(user: String, of app: AppSlug) -> String {
        hexText(Digest.sha256(Array("\(app.text)/\(user)".utf8)).prefix(8))
    }

    static let page = PageResponse.schema("AuditTrail", "entries", of: response)

    private static let response = ResponseSchema<AuditEntry>.object(
        "AuditEntry",
        [
            .required("at", .time) { $0.at },
            .required("action", .word) { $0.action },
            .optional("key", .text(.keyID), "The id of the API key that asked; absent: the service, from its settings.") { $0.key },
            .optional("key_name", .text(.string().example("operators"))) { $0.keyName },
            .optional("app", .slug, "Absent: no single app.") { $0.app },
            .optional(
                "object", .text(.string().example("0123456789abcdef")),
                """
                The id of the key, webhook, hold or installation, the app's slug, or the end of a token. Of a user, the first 16 digits of \
                the SHA-256 of `app/user`.
                """
            ) { $0.object },
            .optional("count", .integer(.integer(0...Int64.max).example(12)), "How many it was about, where that is more than the object.")
            {
                $0.count
            },
        ])
}

/// Which entries a list shows. A nil field does not restrict them.
package struct AuditFilter: Equatable, Sendable {
    package var app: AppSlug?
    package var key: String?
    package var action: AuditAction?
    /// UNIX milliseconds.
    package var since: Int64?

    package init(app: AppSlug? = nil, key: String? = nil, action: AuditAction? = nil, since: Int64? = nil) {
        self.app = app
        self.key = key
        self.action = action
        self.since = since
    }

    func matches(_ entry: AuditEntry) -> Bool {
        (app == nil || entry.app == app) && (key == nil || entry.key == key) && (action == nil || entry.action == action)
    }

    /// What names the filtered list in its cursors.
    var identity: [String?] { ["audit", app?.text, key, action?.rawValue, since.map { "\($0)" }] }
}
