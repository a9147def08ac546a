import PushModel
import StrictJSON
import TestSupport

@testable import TokenServiceAPI
@testable import TokenServiceApps
@testable import TokenServiceEvents
@testable import TokenServiceRegistry
@testable import TokenServiceSending
@testable import TokenServiceUpkeep

/// Bodies of requests. What is taken must be what the API's description describes: the other way round it may be stricter.
enum FuzzBody {
    private static let now: Int64 = 1_795_262_400_000
    private static let id = PushID(high: 1, low: 2)
    private static let caller = Caller(keyID: "0123456789abcdef", app: nil, scopes: [.send], requestsPerSecond: nil)
    static let app: App? = AppSlug("shop").map {
        App(
            id: 1, slug: $0,
            AppProperties(bundleID: "com.example.shop", devicePolicy: .multi, environments: [.production, .sandbox]))
    }

    static func send(_ bytes: [UInt8]) {
        guard let value = parse(bytes, maximumBytes: NotificationRequest.maximumBodyBytes) else { return }
        var reader = JSONObjectReader(value)
        guard let request = NotificationRequest(&reader, source: bytes, now: now) else { return }
        expectDescribed(value, as: "sendNotification")
        precondition(request.expiresAt > now, "what is taken can still be sent")
        precondition(request.timing.notBefore ?? now >= now, "and not in the past")
        guard case .tags(let tags) = request.target else { return }
        FuzzText.expectWritable(tags)
    }

    static func run(_ bytes: [UInt8]) {
        let source = Array(bytes.dropFirst())
        guard let kind = bytes.first, let app, let value = parse(source, maximumBytes: 65_536) else { return }
        var body = JSONObjectReader(value)
        let (isTaken, operation): (Bool, String) =
            switch kind % 11 {
            case 0: (Registration(&body, installation: id, app: app) != nil, "registerInstallation")
            case 1: (InstallationPatch(&body, installation: id, app: app, precondition: .none) != nil, "changeInstallation")
            case 2: (BulkRegistration.Items(&body, app: app) != nil, "registerInstallations")
            case 3: (HoldRequest(&body, app: app.slug, now: now) != nil, "setHold")
            case 4: (HoldRequest(&body, app: nil, now: now) != nil, "setGlobalHold")
            case 5: (QuietHours(&body) != nil, "setQuietHours")
            case 6: (body.newApp() != nil, "createApp")
            case 7: (body.appChange() != nil, "changeApp")
            case 8: (body.newWebhook(allowsHTTP: false) != nil, "createWebhook")
            case 10: (NotificationBatch(&body, source: source, caller: caller, now: now) != nil, "sendNotifications")
            default: (body.webhookChange(allowsHTTP: false) != nil, "changeWebhook")
            }
        guard isTaken, body.problems.isEmpty else { return }
        // Each item of a list has its own answer.
        if ![2, 10].contains(kind % 11) { expectDescribed(value, as: operation) }
    }

    private static func parse(_ bytes: [UInt8], maximumBytes: Int) -> JSONValue? {
        do throws(JSONError) {
            return try JSONValue.parse(bytes, maximumBytes: maximumBytes)
        } catch {
            precondition(!error.description.isEmpty, "a fault is described in words")
            return nil
        }
    }

    static func expectDescribed(_ value: JSONValue, as operation: String) {
        guard let body = bodies[operation] else { preconditionFailure("no operation \(operation) with a body") }
        let faults = SchemaCheck.faults(of: value, against: body.schema)
        precondition(faults.isEmpty, "taken, but not described: \(faults)")
    }

    private static let bodies = Dictionary(
        OpenAPIDocument.operations.compactMap { operation in operation.request.map { (operation.id, $0) } }, uniquingKeysWith: { $1 })
}
