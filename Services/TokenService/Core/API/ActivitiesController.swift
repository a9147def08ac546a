import Hummingbird
import PushModel
import StrictJSON

/// `PUT` and `DELETE /v1/apps/{app}/installations/{id}/activities/{activity}`
struct ActivitiesController: Sendable {
    let registration: InstallationRegistration

    func bind(to router: APIRouter) {
        router.on(.reportActivity, report)
        router.on(.endActivity, end)
    }

    @Sendable private func report(_ call: APICall) async throws -> Response {
        let (app, installation, activity) = (try call.app(), try call.id("id"), try call.activity())
        var report = try await call.body().object { ActivityReport(&$0, installation: installation, activity: activity, app: app) }
        report.expectedOwner = call.owner(expected: report.expectedOwner)
        let result = try await call.byDevice { [report] in try await registration.report(report, app: app) }
        return JSONAnswer.response(.ok, InstallationRecord.hints, OfApp(app: app.slug, value: result.record))
    }

    /// An installation that is not registered has no activity either.
    @Sendable private func end(_ call: APICall) async throws -> Response {
        let (app, installation, activity) = (try call.app(), try call.id("id"), try call.activity())
        let over = ActivityReport(installation: installation, id: activity, token: nil, expectedOwner: call.owner(expected: .anyone))
        do {
            _ = try await call.byDevice { try await registration.report(over, app: app) }
        } catch is NotRegistered {}
        return JSONAnswer.noContent
    }
}

extension APICall {
    fileprivate func activity() throws -> String {
        let id = try text("activity", maximumBytes: Purpose.maximumNameBytes)
        guard Purpose.isName(id) else {
            throw APIError.invalid(
                "the path's {activity}", "invalid_path", "must be 1 to \(Purpose.maximumNameBytes) bytes without control characters")
        }
        return id
    }
}

extension ActivityReport {
    /// Reads the body of `PUT …/activities/{activity}`; every fault goes to `body.problems`.
    /// - Returns: nil if a field is missing or wrong.
    init?(_ body: inout JSONObjectReader, installation: PushID, activity: String, app: App) {
        let token = RegisteredToken(&body, purpose: .activity(id: activity), app: app)
        let expected = body.expectedOwner()
        body.finish()
        guard body.problems.isEmpty, let token else { return nil }
        self.init(installation: installation, id: activity, token: token, expectedOwner: expected)
    }

    static let request = JSONSchema.request(
        "ActivityReport",
        [
            .required("token", .deviceToken, "The activity's present update token."),
            .omissible("environment", .environment.standard("production")),
            .optional("expected_user", .user.orNull, "Refuse with 409 unless this user is signed in now, or no user."),
        ])
}
