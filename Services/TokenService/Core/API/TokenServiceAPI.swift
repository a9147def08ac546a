import Hummingbird
import Observability

/// The HTTP API: which controller answers which route.
struct TokenServiceAPI {
    let apps: AppsController
    let keys: KeysController
    let registration: RegistrationController
    let installations: InstallationsController
    let bulk: BulkController
    let signOut: SignOutController
    let notifications: NotificationsController

    func bind(to router: APIRouter) {
        apps.bind(to: router)
        keys.bind(to: router)
        registration.bind(to: router)
        installations.bind(to: router)
        bulk.bind(to: router)
        signOut.bind(to: router)
        notifications.bind(to: router)
    }
}
