public import Foundation

/// What a ``PushClient`` needs to know at its start.
public struct PushConfiguration: Sendable {
    /// The app's name on the platform (its slug).
    public var app: String
    /// The one of Apple's environments in which the build's tokens work. Nil if the build does not say: each token is then a
    /// ``PushNotice/tokenFailed(purpose:message:)``, and the device does not register.
    public var environment: PushEnvironment?
    /// Where requests go, and whether the app's backend or a device credential authorises them.
    public var server: PushServer
    /// What must outlive the process is here, such as in a ``SplitPushStore`` of keychain and file.
    public var store: any PushStore
    /// Every purpose for which the app asks the system for a token at each launch. A registration waits until each has its token or
    /// its failure, or the answer that there is none now: a registration names every token, and the server retires the others, but those of
    /// a purpose that failed. It waits for no start token of Live Activities, which the server keeps. A purpose without any answer counts
    /// as failed 30 seconds after the answer for alerts.
    public var purposes: Set<PushTokenPurpose>
    /// How long a request, or the app's answer about a credential, may take.
    public var patience: Duration
    /// How long the first receipt waits for others before it is sent.
    public var receiptDelay: Duration

    /// It does not touch the store: ``PushClient`` opens it at its start.
    ///
    /// - Parameter environment: The build's environment; by itself that of the running app (``PushEnvironment/ofThisBuild(_:)``).
    public init(
        app: String, environment: PushEnvironment? = PushEnvironment.ofThisBuild(), server: PushServer, store: any PushStore,
        purposes: Set<PushTokenPurpose> = [.alert], patience: Duration = .seconds(60), receiptDelay: Duration = .seconds(30)
    ) {
        self.app = app
        self.environment = environment
        self.server = server
        self.store = store
        self.purposes = purposes
        self.patience = patience
        self.receiptDelay = receiptDelay
    }
}

/// What a ``PushClient`` wants the server to know, and how far it is.
public struct PushStatus: Sendable, Hashable {
    /// The id in the HTTP API's paths. The client makes it once, and keeps it in the store as ``PushStoreItem/installation``.
    public let installation: UUID
    /// Who is signed in on this device.
    public let user: String?
    /// The app has called ``PushClient/deregister()``, and no user has signed in since. The server may not know it yet.
    public let isDeregistered: Bool
    /// The profile as ``PushClient/updateProfile(_:)`` has left it. The server may still have an older one.
    public let profile: PushProfile
    /// The server has answered that it has the newest state, with tokens of this launch.
    public let isUploaded: Bool
    /// Receipts that the server does not have yet.
    public let pendingReceipts: Int

    init(_ machine: RegistrationMachine) {
        installation = machine.record.installation
        user = machine.record.desired.user
        isDeregistered = machine.record.desired.presence == .deregistered
        profile = machine.record.desired.profile
        isUploaded = machine.isUploaded
        pendingReceipts = machine.record.receipts.pending.count
    }
}
