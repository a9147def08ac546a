import Hummingbird
import Observability

/// The HTTP API: which controller answers which route.
struct TokenServiceAPI {
    let apps: AppsController
    let keys: KeysController
    let registration: RegistrationController
    let reading: ReadingController
    let activities: ActivitiesController
    let bulk: BulkController
    let signOut: SignOutController
    let quietHours: QuietHoursController
    let channels: ChannelsController
    let notifications: NotificationsController
    let notificationReading: NotificationReadingController
    let quarantine: QuarantineController
    let privacy: PrivacyController
    let deadLetters: DeadLettersController
    let audit: AuditController
    let holds: HoldsController
    let webhooks: WebhooksController
    let activity: ActivityController
    let deviceCredentials: DeviceCredentialsController
    let deviceReceipts: DeviceReceiptsController
    let console: ConsoleController

    func bind(to router: APIRouter) {
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
        activity.bind(to: router)
        deviceCredentials.bind(to: router)
        deviceReceipts.bind(to: router)
        console.bind(to: router)
    }
}
