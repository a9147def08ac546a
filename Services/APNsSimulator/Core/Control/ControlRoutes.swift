import HTTPTypes
import Hummingbird
import Logging
import Observability
import StrictJSON

/// Which handler answers which request of the control API.
struct ControlRoutes {
    let simulator: APNsSimulator
    let logger: Logger

    func responder() -> RouterResponder<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: ProblemMiddleware(logger: logger))
        mountPages(on: router)
        let devices = DevicesController(simulator: simulator)
        on(router, .get, "/v1/devices", query: DeviceList.parameters) { try devices.list($0) }
        on(router, .put, "/v1/devices/{token}") { try await devices.put($0) }
        on(router, .get, "/v1/devices/{token}", query: ["wait_accepted", "timeout_seconds"]) { try await devices.get($0) }
        on(router, .delete, "/v1/devices/{token}") { devices.remove(try $0.token()) }
        let actions = DeviceActionsController(simulator: simulator)
        on(router, .post, "/v1/devices/{token}/actions") { try await actions.post($0) }
        on(router, .put, "/v1/devices/{token}/channels") { try await actions.putChannels($0) }
        let activities = ActivitiesController(simulator: simulator)
        on(router, .get, "/v1/devices/{token}/activities", query: ["wait_changes", "timeout_seconds"]) { try await activities.list($0) }
        on(router, .post, "/v1/devices/{token}/activities") { try await activities.start($0) }
        on(router, .post, "/v1/devices/{token}/activities/{activity}/rotate") { try await activities.rotate($0) }
        on(router, .delete, "/v1/devices/{token}/activities/{activity}") { try activities.dismiss($0) }
        let inboxes = InboxController(simulator: simulator)
        on(router, .get, "/v1/devices/{token}/inbox", query: ControlRequest.waits) { try await inboxes.read($0) }
        on(router, .get, "/v1/arrivals", query: ["after", "limit"] + ControlRequest.waits) { try await inboxes.arrivals($0) }
        let channels = ChannelsController(simulator: simulator)
        on(router, .get, "/v1/channels", query: ["followers", "limit"]) { try channels.list($0) }
        on(router, .post, "/v1/channels/followers") { try await channels.addFollowers($0) }
        on(router, .put, "/v1/apps/{bundle}/broadcast") { try await channels.putCapability($0) }
        let scripts = ScriptsController(simulator: simulator)
        on(router, .put, "/v1/devices/{token}/script") { try await scripts.put($0) }
        on(router, .delete, "/v1/devices/{token}/script") { scripts.remove(try $0.token()) }
        let journal = JournalController(simulator: simulator)
        on(router, .get, "/v1/journal", query: ["after", "limit"] + ControlRequest.waits) { try await journal.list($0) }
        on(router, .delete, "/v1/journal") { _ in journal.clear() }
        on(router, .get, "/v1/counters") { _ in journal.counters() }
        let keys = KeysController(simulator: simulator)
        on(router, .get, "/v1/keys") { _ in keys.list() }
        on(router, .put, "/v1/keys/{key}") { try await keys.put($0) }
        on(router, .delete, "/v1/keys/{key}") { try keys.remove($0) }
        let certificates = CertificatesController(keyRing: simulator.keyRing)
        on(router, .get, "/v1/certificates") { _ in certificates.list() }
        on(router, .put, "/v1/certificates/{sha256}") { try await certificates.put($0) }
        on(router, .delete, "/v1/certificates/{sha256}") { try certificates.remove($0) }
        let commands = CommandsController(simulator: simulator)
        on(router, .post, "/v1/commands") { try await commands.post($0) }
        let scenarios = ScenarioController(simulator: simulator)
        on(router, .get, "/v1/scenario") { _ in scenarios.read() }
        on(router, .put, "/v1/scenario") { try await scenarios.put($0) }
        on(router, .delete, "/v1/scenario") { _ in try scenarios.remove() }
        on(router, .get, "/v1/scenarios") { _ in try scenarios.list() }
        router.answerOtherMethods()
        return router.buildResponder()
    }

    private func on(
        _ router: Router<BasicRequestContext>, _ method: HTTPRequest.Method, _ path: String, query: [String] = [],
        _ handler: @escaping @Sendable (ControlRequest) async throws -> Response
    ) {
        router.on(RouterPath(path), method: method) { request, context in
            let request = ControlRequest(request: request, context: context)
            try request.allowQuery(query)
            return try await handler(request)
        }
    }

    private func mountPages(on router: Router<BasicRequestContext>) {
        for file in ControlPage.files { router.get(RouterPath(file.path)) { _, _ in file.response } }
        router.get("/healthz") { [simulator] _, _ in
            let trouble = simulator.trouble
            return ControlAnswer.json(trouble == nil ? .ok : .serviceUnavailable) { writer in
                writer.object { object in
                    object.field("status", trouble ?? "ok")
                    object.field("version", BuildVersion.current.number)
                    object.field("commit", BuildVersion.current.commit)
                }
            }
        }
    }
}

extension APNsSimulator {
    /// The reason why it is unhealthy; nil is healthy.
    fileprivate var trouble: String? {
        if service.hasFailed { return "event_loop_ended" }
        return world.journalFile?.failure == nil ? nil : "journal_file_incomplete"
    }
}

/// Outermost around every request: turns every thrown error into a problem document.
private struct ProblemMiddleware: MiddlewareProtocol {
    typealias Input = Request
    typealias Output = Response
    typealias Context = BasicRequestContext

    let logger: Logger

    @concurrent func handle(
        _ request: Request, context: BasicRequestContext, next: @concurrent (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
        // A client would read a body of an answer to HEAD as the beginning of the next answer.
        let response = await answer(request, context, next)
        return request.method == .head ? response.createHeadResponse() : response
    }

    private func answer(
        _ request: Request, _ context: BasicRequestContext, _ next: (Request, BasicRequestContext) async throws -> Response
    ) async -> Response {
        do {
            return request.asksTheServer ? ControlAnswer.noContent : try await next(request, context)
        } catch {
            let problem = ControlProblem(cause: error)
            if problem.status.code >= 500 {
                logger.error("A control request failed", metadata: [SimulatorLogKey.error: "\(String(describing: error))"])
            }
            return problem.response
        }
    }
}
