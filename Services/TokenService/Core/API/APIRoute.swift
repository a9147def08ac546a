package import HTTPTypes
import Hummingbird

/// One operation of the API and who may use it. The table is the whole API: the router, the documentation and the tests read it.
package struct APIRoute: Hashable, Sendable {
    package let method: HTTPRequest.Method
    /// With `{name}` for a parameter.
    package let path: String
    /// Any one of these is enough. Empty: open to all, for probes and scrapers.
    package let scopes: [Scope]

    /// An operation on no single app needs an administrator's key that is bound to no app.
    package var isAdministrative: Bool { scopes == [.admin] && !isOfApp }
    package let isOfApp: Bool
    /// A device may use it with its credential, for its own installation.
    package var isForDevices: Bool {
        [.register, .change, .logOut, .deregister, .reportReceipts, .reportActivity, .endActivity].contains(self)
    }

    /// What the audit trail calls its use; nil: the trail does not know it. Routes that read record it for `tokens=full` alone.
    package let audit: AuditAction?

    private init(_ method: HTTPRequest.Method, _ path: String, _ scopes: Scope..., audit: AuditAction? = nil) {
        self.method = method
        self.path = path
        self.scopes = scopes
        self.audit = audit
        isOfApp = path.contains("{app}")
    }

    package static let createApp = APIRoute(.post, "/v1/admin/apps", .admin, audit: .appCreated)
    package static let listApps = APIRoute(.get, "/v1/admin/apps", .admin)
    package static let readApp = APIRoute(.get, "/v1/admin/apps/{slug}", .admin)
    package static let changeApp = APIRoute(.patch, "/v1/admin/apps/{slug}", .admin, audit: .appChanged)
    package static let createKey = APIRoute(.post, "/v1/admin/keys", .admin, audit: .keyCreated)
    package static let listKeys = APIRoute(.get, "/v1/admin/keys", .admin)
    package static let rotateKey = APIRoute(.post, "/v1/admin/keys/{id}/rotate", .admin, audit: .keyRotated)
    package static let readKey = APIRoute(.get, "/v1/key", .devices, .send, .read, .admin)
    package static let revokeKey = APIRoute(.delete, "/v1/admin/keys/{id}", .admin, audit: .keyRevoked)
    package static let readAudit = APIRoute(.get, "/v1/admin/audit", .admin)
    package static let listDeadLetters = APIRoute(.get, "/v1/admin/dead-letters", .admin)
    package static let readDeadLetter = APIRoute(.get, "/v1/admin/dead-letters/{id}", .admin)
    package static let replayDeadLetters = APIRoute(.post, "/v1/admin/dead-letters/replay", .admin, audit: .deadLettersReplayed)
    package static let dropDeadLetters = APIRoute(.post, "/v1/admin/dead-letters/drop", .admin, audit: .deadLettersDropped)
    package static let register = APIRoute(.put, "/v1/apps/{app}/installations/{id}", .devices)
    package static let change = APIRoute(.patch, "/v1/apps/{app}/installations/{id}", .devices)
    package static let setTags = APIRoute(.put, "/v1/apps/{app}/installations/{id}/tags", .devices)
    package static let registerMany = APIRoute(.post, "/v1/apps/{app}/installations", .devices)
    package static let importInstallations = APIRoute(.post, "/v1/apps/{app}/import", .devices)
    package static let exportInstallations = APIRoute(.get, "/v1/apps/{app}/export", .devices, audit: .installationsExported)
    package static let readInstallation = APIRoute(.get, "/v1/apps/{app}/installations/{id}", .read, .devices, audit: .tokensRead)
    package static let readHistory = APIRoute(.get, "/v1/apps/{app}/installations/{id}/history", .read, .devices)
    package static let listInstallations = APIRoute(.get, "/v1/apps/{app}/installations", .read, .devices, audit: .tokensRead)
    package static let searchToken = APIRoute(.post, "/v1/apps/{app}/tokens/search", .read, .devices, audit: .tokensRead)
    package static let listUserInstallations = APIRoute(
        .get, "/v1/apps/{app}/users/{user}/installations", .read, .devices, audit: .tokensRead)
    package static let deregister = APIRoute(.delete, "/v1/apps/{app}/installations/{id}", .devices)
    package static let reportReceipts = APIRoute(.post, "/v1/apps/{app}/installations/{id}/receipts", .devices)
    package static let reportActivity = APIRoute(.put, "/v1/apps/{app}/installations/{id}/activities/{activity}", .devices)
    package static let endActivity = APIRoute(.delete, "/v1/apps/{app}/installations/{id}/activities/{activity}", .devices)
    package static let listActivities = APIRoute(.get, "/v1/apps/{app}/activities", .read)
    package static let readLiveActivity = APIRoute(.get, "/v1/apps/{app}/activities/{activity}", .read)
    package static let deregisterToken = APIRoute(.post, "/v1/apps/{app}/tokens/deregister", .devices)
    package static let logOut = APIRoute(.post, "/v1/apps/{app}/installations/{id}/logout", .devices)
    package static let logOutToken = APIRoute(.post, "/v1/apps/{app}/tokens/logout", .devices)
    package static let logOutUser = APIRoute(.post, "/v1/apps/{app}/users/{user}/logout", .devices)
    package static let setQuietHours = APIRoute(.put, "/v1/apps/{app}/users/{user}/quiet-hours", .devices)
    package static let readQuietHours = APIRoute(.get, "/v1/apps/{app}/users/{user}/quiet-hours", .read, .devices)
    package static let removeQuietHours = APIRoute(.delete, "/v1/apps/{app}/users/{user}/quiet-hours", .devices)
    package static let openChannel = APIRoute(.put, "/v1/apps/{app}/channels/{channel}", .send)
    package static let readChannel = APIRoute(.get, "/v1/apps/{app}/channels/{channel}", .read)
    package static let broadcast = APIRoute(.post, "/v1/apps/{app}/channels/{channel}/broadcasts", .send)
    package static let listChannels = APIRoute(.get, "/v1/apps/{app}/channels", .read)
    package static let deleteChannel = APIRoute(.delete, "/v1/apps/{app}/channels/{channel}", .send)
    package static let deleteForeignChannel = APIRoute(.delete, "/v1/apps/{app}/channels", .send)
    package static let eraseUser = APIRoute(.post, "/v1/apps/{app}/users/{user}/erase", .admin, audit: .userErased)
    package static let exportUser = APIRoute(.post, "/v1/apps/{app}/users/{user}/export", .admin, audit: .userExported)
    package static let listQuarantine = APIRoute(.get, "/v1/apps/{app}/quarantine", .read, .admin)
    package static let restoreQuarantine = APIRoute(.post, "/v1/apps/{app}/quarantine/restore", .admin, audit: .quarantineRestored)
    package static let send = APIRoute(.post, "/v1/apps/{app}/notifications", .send)
    package static let sendBatch = APIRoute(.post, "/v1/apps/{app}/notifications/batch", .send)
    package static let upload = APIRoute(.post, "/v1/apps/{app}/notifications/upload", .send)
    package static let validate = APIRoute(.post, "/v1/apps/{app}/notifications/validate", .send)
    package static let cancelNotification = APIRoute(.delete, "/v1/apps/{app}/notifications/{id}", .send)
    package static let readNotification = APIRoute(.get, "/v1/apps/{app}/notifications/{id}", .read)
    package static let listNotifications = APIRoute(.get, "/v1/apps/{app}/notifications", .read)
    package static let makeDeviceCredential = APIRoute(.post, "/v1/apps/{app}/device-credentials", .devices)
    package static let readActivity = APIRoute(.get, "/v1/apps/{app}/activity", .read)
    package static let listDeliveries = APIRoute(.get, "/v1/apps/{app}/notifications/{id}/deliveries", .read, audit: .tokensRead)
    package static let explainNotification = APIRoute(.get, "/v1/apps/{app}/notifications/{id}/why", .read)
    package static let setHold = APIRoute(.post, "/v1/apps/{app}/holds", .admin, audit: .holdSet)
    package static let listHolds = APIRoute(.get, "/v1/apps/{app}/holds", .read, .admin)
    package static let readHold = APIRoute(.get, "/v1/apps/{app}/holds/{id}", .read, .admin)
    package static let liftHold = APIRoute(.delete, "/v1/apps/{app}/holds/{id}", .admin, audit: .holdLifted)
    package static let setGlobalHold = APIRoute(.post, "/v1/admin/holds", .admin, audit: .holdSet)
    package static let listAllHolds = APIRoute(.get, "/v1/admin/holds", .admin)
    package static let readAnyHold = APIRoute(.get, "/v1/admin/holds/{id}", .admin)
    package static let liftAnyHold = APIRoute(.delete, "/v1/admin/holds/{id}", .admin, audit: .holdLifted)
    package static let createWebhook = APIRoute(.post, "/v1/apps/{app}/webhooks", .admin, audit: .webhookCreated)
    package static let listWebhooks = APIRoute(.get, "/v1/apps/{app}/webhooks", .admin)
    package static let readWebhook = APIRoute(.get, "/v1/apps/{app}/webhooks/{id}", .admin)
    package static let changeWebhook = APIRoute(.patch, "/v1/apps/{app}/webhooks/{id}", .admin, audit: .webhookChanged)
    package static let deleteWebhook = APIRoute(.delete, "/v1/apps/{app}/webhooks/{id}", .admin, audit: .webhookDeleted)
    package static let rotateWebhook = APIRoute(.post, "/v1/apps/{app}/webhooks/{id}/rotate", .admin, audit: .webhookRotated)
    package static let pingWebhook = APIRoute(.post, "/v1/apps/{app}/webhooks/{id}/ping", .admin, audit: .webhookPinged)
    package static let listWebhookMessages = APIRoute(.get, "/v1/apps/{app}/webhooks/{id}/messages", .admin)
    package static let redeliverWebhookMessages = APIRoute(
        .post, "/v1/apps/{app}/webhooks/{id}/redeliver", .admin, audit: .webhookRedelivered)

    package static let health = APIRoute(.get, "/healthz")
    package static let readiness = APIRoute(.get, "/readyz")
    package static let metrics = APIRoute(.get, "/metrics")
    package static let description = APIRoute(.get, "/openapi.json")
    package static let descriptionPage = APIRoute(.get, "/docs")
    package static let home = APIRoute(.get, "/")
    package static let console = APIRoute(.get, "/console")
    package static let consoleFile = APIRoute(.get, "/console/{file}")

    /// Open to every client that reaches the port: these routes show no data.
    package static let open = OpenAPIDocument.operations.map(\.route).filter(\.scopes.isEmpty)

    /// Everything that needs a key.
    package static let all = OpenAPIDocument.operations.map(\.route).filter { !$0.scopes.isEmpty }
}

/// Takes a room's handlers, so that a room need not know what runs before them.
protocol RouteBinder: AnyObject {
    typealias Handler = @Sendable (APICall) async throws -> Response

    func on(_ route: APIRoute, _ handler: @escaping Handler)
}
