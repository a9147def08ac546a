import HTTPTypes
import Hummingbird
package import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
package import TokenServiceKit
package import TokenServiceRegistry

/// `PUT` and `DELETE /v1/apps/{app}/installations/{id}/activities/{activity}`, and `/v1/apps/{app}/activities`
package struct ActivitiesController: Sendable {
    package let registration: InstallationRegistration
    package let pool: PostgresPool
    package let relay: WorkSignal

    package init(registration: InstallationRegistration, pool: PostgresPool, relay: WorkSignal) {
        self.registration = registration
        self.pool = pool
        self.relay = relay
    }

    package func bind(to router: some RouteBinder) {
        router.on(.reportActivity, report)
        router.on(.endActivity, end)
        router.on(.listActivities, list)
        router.on(.readLiveActivity, read)
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let list = ActivityList(
            user: try call.words("user", maximumBytes: StatedUser.maximumBytes),
            state: try call.choice("state", of: ActivityRecord.State.self))
        let limit = try PageQuery.limit(call)
        let position = try PageQuery.position(call) { text throws(PageCursor.Fault) in try list.position(text, app: app) }
        let page = try await pool.transaction(isolation: .repeatableRead) { session in
            try ActivityReading(session: session, app: app).page(of: list, after: position, limit: limit)
        }
        return JSONAnswer.response(
            .ok, ActivityRecord.page,
            PageResponse(elements: page.records, nextCursor: page.next.map { list.cursor($0, app: app) }))
    }

    @Sendable private func read(_ call: APICall) async throws -> Response {
        let (app, owner, id) = (try call.app(), try call.activityOwner(), try call.activity())
        let record = try await pool.session { session in try ActivityReading(session: session, app: app).record(of: owner, id) }
        guard let record else { throw APIError.notFound }
        return JSONAnswer.response(.ok, ActivityRecord.response, record)
    }

    @Sendable private func report(_ call: APICall) async throws -> Response {
        let (app, installation, activity) = (try call.app(), try call.id("id"), try call.activity())
        var report = try await call.body().object { ActivityReport(&$0, installation: installation, activity: activity, app: app) }
        report.expectedOwner = call.owner(expected: report.expectedOwner)
        let result = try await registration.report(report, app: app)
        // An update may have waited for the token.
        relay.signal()
        return JSONAnswer.response(.ok, InstallationRecord.hints, OfApp(app: app.slug, value: result.record))
    }

    /// An installation that is not registered has no activity either.
    @Sendable private func end(_ call: APICall) async throws -> Response {
        let (app, installation, activity) = (try call.app(), try call.id("id"), try call.activity())
        let over = ActivityReport(installation: installation, id: activity, token: nil, expectedOwner: call.owner(expected: .anyone))
        do {
            _ = try await registration.report(over, app: app)
        } catch is NotRegistered {}
        return JSONAnswer.noContent
    }
}

extension APICall {
    fileprivate func activity() throws -> String { try name("activity") }

    /// The query names the owner, because another one may have an activity of the same name.
    fileprivate func activityOwner() throws -> UpdateTarget.Owner {
        let user = try words("user", maximumBytes: StatedUser.maximumBytes)
        let installation = try query("installation").map { text in
            guard let id = PushID(text) else { throw APIError.invalid("installation", .invalidID, "must be a UUID") }
            return id
        }
        guard user == nil || installation == nil, let owner = UpdateTarget.Owner(user: user, orInstallation: installation) else {
            throw APIError.invalid("user", .outOfRange, "must say whose Live Activity it is, or else installation, if it has no user")
        }
        return owner
    }

    /// A name in the path: ``Purpose/isName(_:)``.
    func name(_ parameter: String) throws -> String { try text(parameter, maximumBytes: Purpose.maximumNameBytes) }
}

extension ActivityReport {
    /// Reads the body of `PUT …/activities/{activity}`; every fault goes to `body.problems`.
    /// - Returns: nil if a field is missing or wrong.
    init?(_ body: inout JSONObjectReader, installation: PushID, activity: String, app: App) {
        let token = RegisteredToken(&body, purpose: .activity(id: activity), app: app)
        let expected = body.expectedOwner()
        let type = body.has("attributes_type") ? body.activityName("attributes_type") : nil
        let hasFrequentUpdates = body.optionalBool("frequent_updates")
        let channel = body.has("channel") ? body.activityName("channel") : nil
        body.finish()
        guard body.problems.isEmpty, let token else { return nil }
        self.init(
            installation: installation, id: activity, token: token, expectedOwner: expected, attributesType: type,
            hasFrequentUpdates: hasFrequentUpdates, channel: channel)
    }

    static let request = JSONSchema.request(
        "ActivityReport",
        [
            .required("token", .deviceToken, "The activity's present update token."),
            .omissible("environment", .environment.standard("production")),
            .omissible("attributes_type", .string(Purpose.maximumNameBytes).example("Ride"), "Of an activity that the app started itself."),
            .omissible("frequent_updates", .boolean, "Whether the person lets the app update its activities frequently."),
            .omissible(
                "channel", .string(Purpose.maximumNameBytes).example("game-17"),
                """
                The broadcast channel whose states it shows, where the device cannot follow the channel (below iOS 18): broadcasts with \
                the fallback `activities` reach it by its token. If the app has no channel of this name, and has deleted none in the \
                last twelve hours, the activity follows none.
                """
            ),
            .optional("expected_user", .user.orNull, "Refuse with 409 unless exactly this user is signed in now; null: unless no user is."),
        ])
}

extension APIRoute {
    package static let reportActivity = APIRoute(
        .put, "/v1/apps/{app}/installations/{id}/activities/{activity}", .devices, forDevices: true)
    package static let endActivity = APIRoute(
        .delete, "/v1/apps/{app}/installations/{id}/activities/{activity}", .devices, forDevices: true)
    package static let listActivities = APIRoute(.get, "/v1/apps/{app}/activities", .read)
    package static let readLiveActivity = APIRoute(.get, "/v1/apps/{app}/activities/{activity}", .read)
}

extension Resource {
    package static let activities = Resource(
        "Live Activities", "What the platform follows of each: whose it is, its state, and whether an update waits.", [list, read])

    private static let list = Operation(
        .listActivities, "listLiveActivities", "An app's Live Activities, page by page",
        """
        Those that started within the last seven days, by owner and id. A page looks at no more than 5000 of them: a `state` that few have \
        gives short pages, even empty ones, with a `next_cursor`.
        """,
        parameters: Parameter.page + [
            .query("user", .user, "Of this user."), .query("state", .words(ActivityRecord.State.self), "In this state."),
        ],
        answers: [Answer(200, "One page.", .json(ActivityRecord.page))], problems: ProblemCode.page + [.unsupportedValue, .outOfRange])

    private static let read = Operation(
        .readLiveActivity, "readLiveActivity", "One Live Activity",
        "The query says whose it is: others may have an activity of the same id. Exactly one of the two is given.",
        parameters: [.query("user", .user, "Of this user."), .query("installation", .uuid, "Of this installation, which has no user.")],
        answers: [Answer(200, "As it is now.", .json(ActivityRecord.response))], problems: [.invalidID, .outOfRange])
}

/// The operations of Live Activities, which stand among those of the installations.
extension Operation {
    package static let reportActivity = Operation(
        .reportActivity, "reportActivity", "Report the update token of a Live Activity",
        """
        At the activity's start, and whenever iOS gives it another token. Activities do not take each other's place: each has a token of \
        its own. An update that waited for the token goes. If the activity belongs to another user, or is over, it ends on this device.
        """,
        request: .json(ActivityReport.request), answers: [Answer(200, "The installation as it is now.", .json(InstallationRecord.hints))],
        problems: [.ownerMismatch, .activityOver, .tooManyChanges])

    package static let endActivity = Operation(
        .endActivity, "endActivity", "Report that a Live Activity is over", "Idempotent. Its token is retired.",
        answers: [Answer(204, "Nothing is sent to it any more.")], problems: [.tooManyChanges])
}
