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
        let devices = DevicesControl(simulator: simulator)
        on(router, .get, "/v1/devices", query: DeviceList.parameters) { try devices.list($0) }
        on(router, .put, "/v1/devices/{token}") { try await devices.put($0) }
        on(router, .get, "/v1/devices/{token}", query: ["wait_accepted", "timeout_seconds"]) { try await devices.get($0) }
        on(router, .delete, "/v1/devices/{token}") { devices.remove(try $0.token()) }
        let actions = DeviceActionsControl(simulator: simulator)
        on(router, .post, "/v1/devices/{token}/actions") { try await actions.post($0) }
        on(router, .put, "/v1/devices/{token}/channels") { try await actions.putChannels($0) }
        let activities = ActivitiesControl(simulator: simulator)
        on(router, .get, "/v1/devices/{token}/activities", query: ["wait_changes", "timeout_seconds"]) { try await activities.list($0) }
        on(router, .post, "/v1/devices/{token}/activities") { try await activities.start($0) }
        on(router, .post, "/v1/devices/{token}/activities/{activity}/rotate") { try await activities.rotate($0) }
        on(router, .delete, "/v1/devices/{token}/activities/{activity}") { try activities.dismiss($0) }
        let inboxes = InboxControl(simulator: simulator)
        on(router, .get, "/v1/devices/{token}/inbox", query: ControlRequest.waits) { try await inboxes.read($0) }
        on(router, .get, "/v1/arrivals", query: ["after", "limit"] + ControlRequest.waits) { try await inboxes.arrivals($0) }
        let channels = ChannelsControl(simulator: simulator)
        on(router, .get, "/v1/channels", query: ["followers", "limit"]) { try channels.list($0) }
        on(router, .post, "/v1/channels/followers") { try await channels.addFollowers($0) }
        on(router, .put, "/v1/apps/{bundle}/broadcast") { try await channels.putCapability($0) }
        let scripts = ScriptsControl(simulator: simulator)
        on(router, .put, "/v1/devices/{token}/script") { try await scripts.put($0) }
        on(router, .delete, "/v1/devices/{token}/script") { scripts.remove(try $0.token()) }
        let journal = JournalControl(simulator: simulator)
        on(router, .get, "/v1/journal", query: ["after", "limit"] + ControlRequest.waits) { try await journal.list($0) }
        on(router, .delete, "/v1/journal") { _ in journal.clear() }
        on(router, .get, "/v1/counters") { _ in journal.counters() }
        let keys = KeysControl(simulator: simulator)
        on(router, .get, "/v1/keys") { _ in keys.list() }
        on(router, .put, "/v1/keys/{key}") { try await keys.put($0) }
        on(router, .delete, "/v1/keys/{key}") { try keys.remove($0) }
        let certificates = CertificatesControl(keyRing: simulator.keyRing)
        on(router, .get, "/v1/certificates") { _ in certificates.list() }
        on(router, .put, "/v1/certificates/{sha256}") { try await certificates.put($0) }
        on(router, .delete, "/v1/certificates/{sha256}") { try certificates.remove($0) }
        let commands = CommandsControl(simulator: simulator)
        on(router, .post, "/v1/commands") { try await commands.post($0) }
        let scenarios = ScenarioControl(simulator: simulator)
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

/// The page of the control port: every device with its lock screen, and the arrivals as they come. It loads nothing from other servers, and
/// its policy makes the browser refuse to.
enum ControlPage {
    struct File {
        let path: String
        let contentType: String
        let bytes: [UInt8]

        var response: Response {
            Response(
                status: .ok,
                headers: [
                    .contentType: contentType, .cacheControl: "no-store", .contentSecurityPolicy: ControlPage.policy,
                    .xContentTypeOptions: "nosniff",
                ], body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
        }
    }

    /// Scripts and styles are files of this server: payload text that became an element would not run.
    private static let policy = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
        base-uri 'none'; form-action 'none'; frame-ancestors 'none'
        """

    static let files = [
        File(path: "/", contentType: "text/html; charset=utf-8", bytes: PackageResources.index_html),
        File(path: "/page/page.css", contentType: "text/css; charset=utf-8", bytes: PackageResources.page_css),
        File(path: "/page/icon.svg", contentType: "image/svg+xml", bytes: PackageResources.icon_svg),
        script("main.js", PackageResources.main_js), script("devices.js", PackageResources.devices_js),
        script("activities.js", PackageResources.activities_js), script("channels.js", PackageResources.channels_js),
        script("arrivals.js", PackageResources.arrivals_js), script("dom.js", PackageResources.dom_js),
    ]

    private static func script(_ name: String, _ bytes: [UInt8]) -> File {
        File(path: "/page/" + name, contentType: "text/javascript; charset=utf-8", bytes: bytes)
    }
}

/// Scripts: the results of a token's next pushes.
struct ScriptsControl {
    private static let longestDelayMilliseconds: Int64 = 3_600_000

    let simulator: APNsSimulator

    func put(_ request: ControlRequest) async throws -> Response {
        let token = try request.token()
        let script = try await request.body { reader -> AnswerScript? in
            let answers = reader.objects("answers", maximumCount: 10_000)?.compactMap { Self.answer($0) }
            let ending = reader.optionalChoice("then", of: AnswerScript.Ending.self) ?? .accept
            if answers?.isEmpty == true, ending == .repeat { reader.problem("answers", "too_short", "there is nothing to repeat") }
            return answers.map { AnswerScript($0, then: ending) }
        }
        simulator.world.setScript(script, for: token)
        return ControlAnswer.json { writer in
            writer.object { object in
                object.field("token", token.hex)
                object.field("answers", script.answers.count)
                object.field("then", script.ending.rawValue)
            }
        }
    }

    func remove(_ token: TokenKey) -> Response {
        simulator.world.setScript(nil, for: token)
        return ControlAnswer.noContent
    }

    private static func answer(_ fields: JSONObjectReader) -> ScriptedAnswer? {
        var reader = fields
        let action = reader.optionalChoice("action", of: ScriptedAnswer.Action.self) ?? .answer
        let statuses: ClosedRange<Int64> = 200...599
        let status = action == .answer ? reader.integer("status", in: statuses) : reader.optionalInteger("status", in: statuses) ?? 200
        let reason = reader.optionalString("reason", maximumBytes: 200)
        let timestamp = reader.optionalInteger("timestamp_ms", in: 0...Int64.max)
        let delay = reader.optionalInteger("delay_ms", in: 0...longestDelayMilliseconds) ?? 0
        let code = reader.optionalInteger("error_code", in: 0...Int64(UInt32.max))
        reader.finish()
        guard let status else { return nil }
        return ScriptedAnswer(
            action, answer: StatusAnswer(status: Int(status), reason: reason, timestamp: timestamp), delay: .milliseconds(delay),
            resetCode: code.map { UInt32($0) } ?? ScriptedAnswer.refusedStream)
    }
}

/// Clients' certificates by their fingerprints, which may be added and revoked while clients are connected.
struct CertificatesControl {
    let keyRing: KeyRing

    func list() -> Response {
        let certificates = keyRing.certificates()
        return ControlAnswer.json { writer in
            writer.object { object in
                object.array("certificates") { array in
                    for (fingerprint, state) in certificates { array.object { Self.write(fingerprint, state, to: &$0) } }
                }
            }
        }
    }

    func put(_ request: ControlRequest) async throws -> Response {
        let fingerprint = try Self.fingerprint(request)
        let state = try await request.body { reader in reader.choice("state", of: CertificateState.self) }
        guard let isKnown = keyRing.set(state, fingerprint) else {
            throw ControlProblem(.conflict, "too_many_certificates", "Too many certificates", "DELETE some of GET /v1/certificates")
        }
        return ControlAnswer.json(isKnown ? .ok : .created) { writer in writer.object { Self.write(fingerprint, state, to: &$0) } }
    }

    /// Removes the certificate's own state: its authority alone decides again.
    func remove(_ request: ControlRequest) throws -> Response {
        guard keyRing.set(nil, try Self.fingerprint(request)) == true else {
            throw ControlProblem(.notFound, "unknown_certificate", "No such certificate", "GET /v1/certificates lists those there are")
        }
        return ControlAnswer.noContent
    }

    private static func fingerprint(_ request: ControlRequest) throws -> CertificateFingerprint {
        let text = try request.context.parameters.require("sha256")
        guard let fingerprint = CertificateFingerprint(text) else {
            throw ControlProblem(
                .badRequest, "invalid_fingerprint", "The request is not valid",
                "expected 64 hex digits, as openssl x509 -noout -fingerprint -sha256 prints them")
        }
        return fingerprint
    }

    private static func write(_ fingerprint: CertificateFingerprint, _ state: CertificateState, to object: inout JSONWriter) {
        object.field("sha256", fingerprint.hex)
        object.field("state", state.rawValue)
    }
}
