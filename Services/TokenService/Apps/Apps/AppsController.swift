import HTTPTypes
import Hummingbird
import PushModel
import StrictJSON
import TokenServiceKit

/// `/v1/admin/apps`
package struct AppsController: Sendable {
    package let apps: AppStore

    package init(apps: AppStore) {
        self.apps = apps
    }

    package func bind(to router: some RouteBinder) {
        router.on(.createApp, create)
        router.on(.listApps, list)
        router.on(.readApp, read)
        router.on(.changeApp, change)
    }

    @Sendable private func create(_ call: APICall) async throws -> Response {
        let (slug, properties) = try await call.body().object { $0.newApp() }
        switch try await apps.create(slug: slug, properties, by: call.actor) {
        case .created(let app): return try await answer(.created, app)
        case .existed(let app): return try await answer(.ok, app)
        }
    }

    private func answer(_ status: HTTPResponse.Status, _ app: App) async throws -> Response {
        let warnings = app.warnings(among: try await apps.credentials(of: app))
        return JSONAnswer.response(status, App.made, (app, warnings))
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        JSONAnswer.response(.ok, App.list, try await apps.all())
    }

    @Sendable private func read(_ call: APICall) async throws -> Response {
        guard let slug = call.parameters.get("slug").flatMap({ AppSlug($0) }), let app = try await apps.read(slug) else {
            throw APIError.notFound
        }
        return JSONAnswer.response(.ok, App.response, app)
    }

    @Sendable private func change(_ call: APICall) async throws -> Response {
        let change = try await call.body().object { $0.appChange() }
        guard let slug = call.parameters.get("slug").flatMap({ AppSlug($0) }) else { throw APIError.notFound }
        return try await answer(.ok, try await apps.change(slug, change, by: call.actor))
    }
}

extension APIRoute {
    package static let createApp = APIRoute(.post, "/v1/admin/apps", .admin, audit: .appCreated)
    package static let listApps = APIRoute(.get, "/v1/admin/apps", .admin)
    package static let readApp = APIRoute(.get, "/v1/admin/apps/{slug}", .admin)
    package static let changeApp = APIRoute(.patch, "/v1/admin/apps/{slug}", .admin, audit: .appChanged)
}

extension Resource {
    package static let apps = Resource(
        "Apps", "An app is a tenant: its devices, users, notifications and keys are its own.",
        [create, list, read, change])

    private static let create = Operation(
        .createApp, "createApp", "Make an app", "The same again answers 200; another one of the same slug 409.",
        request: .json(AppProperties.newBody),
        answers: [Answer(201, "Made.", .json(App.made)), Answer(200, "It was there, exactly like this.", .json(App.made))],
        problems: [.appDiffers])

    private static let list = Operation(
        .listApps, "listApps", "All apps", answers: [Answer(200, "By slug.", .json(App.list))])

    private static let read = Operation(
        .readApp, "readApp", "One app", answers: [Answer(200, "The app.", .json(App.response))], problems: [.notFound])

    private static let change = Operation(
        .changeApp, "changeApp", "Change an app", "A merge patch (RFC 7396): what the body does not name stays as it is.",
        request: .mergePatch(AppProperties.changeBody), answers: [Answer(200, "The app as it is now.", .json(App.made))],
        problems: [.notFound, .environmentInUse])

}
