import Hummingbird
import Observability
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
    package let activity: ActivityController
    package let deviceCredentials: DeviceCredentialsController
    package let deviceReceipts: DeviceReceiptsController
    package let console: ConsoleController

    package init(
        apps: AppsController, keys: KeysController, registration: RegistrationController, reading: ReadingController,
        activities: ActivitiesController, bulk: BulkController, signOut: SignOutController, quietHours: QuietHoursController,
        channels: ChannelsController, notifications: NotificationsController, notificationReading: NotificationReadingController,
        quarantine: QuarantineController, privacy: PrivacyController, deadLetters: DeadLettersController, audit: AuditController,
        holds: HoldsController, webhooks: WebhooksController, activity: ActivityController, deviceCredentials: DeviceCredentialsController,
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
        self.activity = activity
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
        activity.bind(to: router)
        deviceCredentials.bind(to: router)
        deviceReceipts.bind(to: router)
        console.bind(to: router)
    }
}
