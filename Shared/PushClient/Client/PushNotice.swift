/// What the client reports to the app: progress, and what the app must act on. See ``PushClient/onNotice(_:)``.
public enum PushNotice: Sendable, Hashable {
    /// The server has the newest registration. Nil: with no user.
    case registered(user: String?)
    /// The server has signed out the former user. Until this, an app whose backend forwards keeps that user's session.
    case signedOut
    /// The server has forgotten the installation.
    case deregistered
    /// The app's backend, or the server, says that this user's session is over. The app shows its sign-in. A refusal of a request that
    /// left before the user signed in is none, nor is that of a former user's sign-out while another user is signed in. Nil: the sign-out
    /// of a former user needs that user's session.
    case signInRequired(user: String?)
    /// The server will never take the present state, or a report of a Live Activity, or answers with a redirect: a fault of the app or its
    /// set-up. The client tries again after a change, or when the app is opened. It drops refused receipts and ends of Live Activities,
    /// but not at a redirect.
    case refused(operation: PushOperation, status: Int, code: String?)
    /// There is no token for this purpose: the system gave none, and the message is the system's; or the build does not say in which
    /// environment its tokens work.
    case tokenFailed(purpose: PushTokenPurpose, message: String)
    /// The store cannot be read or written now, for example before the device is unlocked for the first time. The client keeps what it
    /// knows in memory and tries again at the next event.
    case storeFailed(message: String)
}

/// What a request to the server does.
public enum PushOperation: String, Sendable, Hashable {
    /// `PUT /v1/apps/{app}/installations/{id}`
    case register
    /// `PATCH /v1/apps/{app}/installations/{id}`
    case change
    /// `POST /v1/apps/{app}/installations/{id}/logout`
    case signOut
    /// `DELETE /v1/apps/{app}/installations/{id}`
    case deregister
    /// `POST /v1/apps/{app}/installations/{id}/receipts`
    case receipts
    /// `PUT /v1/apps/{app}/installations/{id}/activities/{activity}`
    case reportActivity
    /// `DELETE /v1/apps/{app}/installations/{id}/activities/{activity}`
    case endActivity
}
