import HTTPTypes
package import Hummingbird
package import Observability
package import TokenServiceApps
package import TokenServiceEvents
package import TokenServiceOutcomes
package import TokenServiceRegistry
package import TokenServiceSending
package import TokenServiceUpkeep

/// The HTTP API: which controller answers which route.
package struct TokenServiceAPI {
    package let apps: AppsController
    package let keys: KeysController
    package let registration: RegistrationController
    package let reading: ReadingController
    package let activities: ActivitiesController
    package let bulk: BulkController
    package let signOut: SignOutController
    package let quietHours: QuietHoursController
    package let channels: ChannelsController
    package let notifications: NotificationsController
    package let notificationReading: NotificationReadingController
    package let quarantine: QuarantineController
    package let privacy: PrivacyController
    package let deadLetters: DeadLettersController
    package let audit: AuditController
    package let holds: HoldsController
    package let webhooks: WebhooksController
    package let traffic: TrafficController
    package let deviceCredentials: DeviceCredentialsController
    package let deviceReceipts: DeviceReceiptsController
    package let console: ConsoleController

    package init(
        apps: AppsController, keys: KeysController, registration: RegistrationController, reading: ReadingController,
        activities: ActivitiesController, bulk: BulkController, signOut: SignOutController, quietHours: QuietHoursController,
        channels: ChannelsController, notifications: NotificationsController, notificationReading: NotificationReadingController,
        quarantine: QuarantineController, privacy: PrivacyController, deadLetters: DeadLettersController, audit: AuditController,
        holds: HoldsController, webhooks: WebhooksController, traffic: TrafficController, deviceCredentials: DeviceCredentialsController,
        deviceReceipts: DeviceReceiptsController, console: ConsoleController
    ) {
        self.apps = apps
        self.keys = keys
        self.registration = registration
        self.reading = reading
        self.activities = activities
        self.bulk = bulk
        self.signOut = signOut
        self.quietHours = quietHours
        self.channels = channels
        self.notifications = notifications
        self.notificationReading = notificationReading
        self.quarantine = quarantine
        self.privacy = privacy
        self.deadLetters = deadLetters
        self.audit = audit
        self.holds = holds
        self.webhooks = webhooks
        self.traffic = traffic
        self.deviceCredentials = deviceCredentials
        self.deviceReceipts = deviceReceipts
        self.console = console
    }

    package func bind(to router: APIRouter) {
        apps.bind(to: router)
        keys.bind(to: router)
        registration.bind(to: router)
        reading.bind(to: router)
        activities.bind(to: router)
        bulk.bind(to: router)
        signOut.bind(to: router)
        quietHours.bind(to: router)
        channels.bind(to: router)
        notifications.bind(to: router)
        notificationReading.bind(to: router)
        DocumentationController().bind(to: router)
        quarantine.bind(to: router)
        privacy.bind(to: router)
        deadLetters.bind(to: router)
        audit.bind(to: router)
        holds.bind(to: router)
        webhooks.bind(to: router)
        traffic.bind(to: router)
        deviceCredentials.bind(to: router)
        deviceReceipts.bind(to: router)
        console.bind(to: router)
    }
}

/// The context that Hummingbird passes along with a request.
package struct APIRequestContext: RequestContext {
    package var coreContext: CoreRequestContextStorage
    /// Nil if the connection did not decide on the request by its head.
    let decision: AdmissionDecision?

    package init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        decision = ConnectionHandler.takeDecision(on: source.channel)
    }
}

/// Binds every route of the table to its handler, behind ``AdmissionMiddleware``. Only the service's start uses it.
package final class APIRouter: RouteBinder {
    private let router: Router<APIRequestContext>
    private let admission: AdmissionMiddleware

    package init(admission: AdmissionMiddleware) {
        self.admission = admission
        router = Router(context: APIRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: admission.observation)
    }

    package func on(_ route: APIRoute, _ handler: @escaping Handler) {
        let query = OpenAPIDocument.queryNames(of: route)
        let strict: Handler = { call in
            try call.allowQuery(query)
            return try await handler(call)
        }
        // HEAD as well: the router's own handler would state that a stream has no bytes.
        for method in route.method == .get ? [.get, .head] : [route.method] {
            router.on(RouterPath(route.path), method: method) { [admission] request, context in
                try await admission.answer(request, context, route, strict)
            }
        }
    }

    /// Binds a route that needs no key.
    func open(_ route: APIRoute, _ handler: @escaping @Sendable (Request, Parameters) throws -> Response) {
        router.on(RouterPath(route.path), method: route.method) { request, context in try handler(request, context.parameters) }
    }

    /// All bound routes, `METHOD /path`, as the router itself reports them.
    package var routes: [String] { router.routes.map { "\($0.method.rawValue) \($0.path)" } }

    /// Outside the limits: a monitor must get an answer from an overloaded process.
    package func mount(_ operations: OperationsRoutes) { operations.mount(on: router) }

    /// Call it last: it binds the answer of every path to the methods that the path does not take.
    package func responder() -> RouterResponder<APIRequestContext> {
        router.answerOtherMethods()
        return router.buildResponder()
    }
}
