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
