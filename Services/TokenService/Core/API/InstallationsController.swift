import Hummingbird
import PushModel
import StrictJSON

/// `/v1/apps/{app}/installations/{id}`: what devices and their servers write. Reading is ``ReadingController``'s.
struct InstallationsController: Sendable {
    let registration: InstallationRegistration
    let metrics: TokenServiceMetrics

    func bind(to router: APIRouter) {
        router.on(.register, register)
    }

    @Sendable private func register(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let id = try call.id("id")
        let wanted = try await call.body().object { Registration(&$0, installation: id, app: app) }
        let result = try await registration.register(wanted, app: app)
        metrics.registered(isNew: result.isNew)
        return JSONAnswer.response(result.isNew ? .created : .ok) { result.record.write(to: &$0, app: app.slug) }
    }
}
