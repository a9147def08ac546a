package import PushModel
package import StrictJSON
package import TokenServiceApps
import TokenServiceKit

/// The whole state of one installation as a client states it, checked. The rules are in ``RegistryBatch``.
package struct Registration: Sendable {
    package var installation: PushID
    /// The signed-in user; nil for none.
    package var user: String?
    package var tokens: [RegisteredToken]
    /// Their tokens stay, though the list names none: the device does not know them in this launch.
    package var keeps: Set<Purpose> = []
    package var profile: InstallationProfile
    /// The backend's; nil leaves them. Only an item of a list states them, because no app's client library makes one.
    package var tags: [String]?
    /// Whether it is an item of a list, which a backend makes, or a single registration, which a device makes.
    package var isListed = false
    /// A token that the client knows to be over.
    package var replaces: DeviceToken?
    package var expectedOwner: ExpectedOwner
    /// The state that the caller has seen (RFC 9110 section 13.1.1).
    package var precondition: Precondition = .none
}

/// A change of single fields (RFC 7396). It may come from a backend instead of the device, so it stamps nothing but the tokens it names.
package struct InstallationPatch: Sendable {
    package var installation: PushID
    package var user: Field<String> = .untouched
    package var locale: Field<String> = .untouched
    package var timeZone: Field<String> = .untouched
    package var appVersion: Field<String> = .untouched
    package var osVersion: Field<String> = .untouched
    package var deviceModel: Field<String> = .untouched
    package var permission: Field<Permission> = .untouched
    package var appTags: [String]?
    /// The list of a registration; nil to leave the tokens alone.
    package var tokens: [RegisteredToken]?
    /// The purposes whose tokens stay, as in a registration.
    package var keeps: Set<Purpose> = []
    package var replaces: DeviceToken?
    package var expectedOwner: ExpectedOwner
    package var precondition: Precondition

    package enum Field<Value: Sendable & Equatable>: Sendable, Equatable {
        case untouched
        /// Nil removes it.
        case set(Value?)

        package func applied(to value: Value?) -> Value? {
            switch self {
            case .untouched: value
            case .set(let new): new
            }
        }
    }
}

/// What a device reports of one Live Activity. It comes from the device, and stamps nothing but its token.
package struct ActivityReport: Sendable {
    package var installation: PushID
    /// The activity's id, as in ``Purpose/activity(id:)``.
    package var id: String
    /// The activity's present update token; nil if it is over.
    package var token: RegisteredToken?
    package var expectedOwner: ExpectedOwner
    package var attributesType: String?
    /// Whether the person lets the app update its activities frequently; nil: not said.
    package var hasFrequentUpdates: Bool?
    /// The name of the broadcast channel whose states it shows, though the device cannot follow the channel itself; nil: not said.
    package var channel: String?

    package init(
        installation: PushID, id: String, token: RegisteredToken? = nil, expectedOwner: ExpectedOwner, attributesType: String? = nil,
        hasFrequentUpdates: Bool? = nil, channel: String? = nil
    ) {
        self.installation = installation
        self.id = id
        self.token = token
        self.expectedOwner = expectedOwner
        self.attributesType = attributesType
        self.hasFrequentUpdates = hasFrequentUpdates
        self.channel = channel
    }
}

/// One token of a registration. No two of a registration have the same environment and purpose.
package struct RegisteredToken: Hashable, Sendable {
    package var token: DeviceToken
    package var environment: APNsEnvironment
    package var purpose: Purpose

    package init(token: DeviceToken, environment: APNsEnvironment, purpose: Purpose) {
        self.token = token
        self.environment = environment
        self.purpose = purpose
    }
}

/// Whether the person lets the app show notifications (Apple: UNAuthorizationStatus).
package enum Permission: String, Sendable, CaseIterable {
    case notDetermined = "not_determined"
    /// Shown quietly, in the notification centre alone.
    case provisional
    case denied, authorized
    /// The permission of an App Clip, for a few hours.
    case ephemeral
}

/// The device's report about itself.
package struct InstallationProfile: Equatable, Sendable {
    package var locale: String?
    package var timeZone: String?
    package var appVersion: String?
    package var osVersion: String?
    package var deviceModel: String?
    package var permission: Permission?
    /// The app's own; the backend's are no part of its report.
    package var appTags: [String] = []

    package init() {}

    /// Compares texts by bytes (``ExactText``).
    package static func == (left: InstallationProfile, right: InstallationProfile) -> Bool {
        left.locale.hasSameBytes(as: right.locale) && left.timeZone.hasSameBytes(as: right.timeZone)
            && left.appVersion.hasSameBytes(as: right.appVersion) && left.osVersion.hasSameBytes(as: right.osVersion)
            && left.deviceModel.hasSameBytes(as: right.deviceModel) && left.permission == right.permission
            && left.appTags.haveSameBytes(as: right.appTags)
    }
}

/// Guards against a late request that would undo a newer one (`docs/registration.md`, rule 8).
package enum ExpectedOwner: Equatable, Sendable {
    case anyone
    /// This user; nil: no user.
    case exactly(String?)
    /// The caller is a device with its credential, and expects what a key may expect too. The credential is good until the owner epoch in
    /// which it was made ends by another cause than this user's own sign-in with it. Epoch 0: the installation was not registered.
    indirect case device(DeviceCredentialClaims, expecting: ExpectedOwner)

    package var credential: DeviceCredentialClaims? { if case .device(let credential, _) = self { credential } else { nil } }

    /// Whose sign-outs the registry has to read before it can say whether the credential is good.
    func signOuts(of app: App) -> [SignOutMoments.Name] {
        credential.map { SignOutMoments.Name.all(of: $0.user, at: InstallationKey(app: app.id, id: $0.installation)) } ?? []
    }

    /// Refuses a request that names the user from now on, if its sender did not know the present state. The credential comes first: a
    /// device without rights does not learn who is signed in.
    /// - Parameters: the present state; no owner, 0 and false if there is none.
    /// - Throws: ``CredentialRevoked``, ``OwnerMismatch``.
    package func check(_ owner: String?, epoch: Int64, isRegistered: Bool = true) throws {
        switch self {
        case .anyone: break
        case .exactly(let expected): guard expected.hasSameBytes(as: owner) else { throw OwnerMismatch() }
        case .device(let own, let expected):
            let isOwn = isRegistered && own.user.hasSameBytes(as: owner)
            guard epoch == own.ownerEpoch || isOwn && epoch == own.ownerEpoch + 1 else { throw CredentialRevoked() }
            try expected.check(owner, epoch: epoch, isRegistered: isRegistered)
        }
    }

    /// The same for a request that names no user: it concerns the present owner. A device changes, reports for and signs out its own user
    /// and no other.
    package func checkPresent(_ owner: String?, epoch: Int64) throws {
        if let own = credential, !own.user.hasSameBytes(as: owner) { throw CredentialRevoked() }
        try check(owner, epoch: epoch)
    }
}

/// `If-Match`.
package enum Precondition: Equatable, Sendable {
    case none
    /// `*`: it is there.
    case exists
    /// One of these entity tags, quotes included.
    case matches([String])

    /// - Parameter etag: The present state's; nil if there is none.
    package func allows(_ etag: @autoclosure () -> String?) -> Bool {
        switch self {
        case .none: true
        case .exists: etag() != nil
        case .matches(let tags): etag().map(tags.contains) ?? false
        }
    }
}

/// Whether a device shows the app's alerts, by the permission that the app last reported (Apple: UNAuthorizationStatus).
package enum AlertDisplay: String, CaseIterable, Sendable {
    case fully
    /// The alert shows in Notification Center only, without a sound.
    case quietly
    case notAtAll = "not_at_all"
    case unknown

    package init(_ permission: Permission?) {
        self =
            switch permission {
            case .authorized, .ephemeral: .fully
            case .provisional: .quietly
            case .denied, .notDetermined: .notAtAll
            case nil: .unknown
            }
    }
}

extension Permission {
    /// What a device shows with this permission: a sentence for people, without its subject. Nil if the device shows everything.
    package var alertLimit: String? {
        switch self {
        case .authorized, .ephemeral: nil
        case .provisional: "shows alerts quietly now, in Notification Center only: the permission is provisional"
        case .denied: "shows nothing now: the person has denied notifications"
        case .notDetermined: "shows nothing now: the app has not asked the person for the permission yet"
        }
    }
}

extension InstallationPatch {
    /// Reads the body of `PATCH /v1/apps/{app}/installations/{id}`: a field that is absent stays, null removes (RFC 7396).
    /// - Returns: nil if a field is wrong; every fault is in `body.problems`.
    package init?(_ body: inout JSONObjectReader, installation: PushID, app: App, precondition: Precondition) {
        self.init(installation: installation, expectedOwner: body.expectedOwner(), precondition: precondition)
        if body.has("user") { user = .set(body.optionalString("user", maximumBytes: StatedUser.maximumBytes)) }
        if body.has("locale") { locale = .set(body.locale()) }
        timeZone = body.field("time_zone")
        appVersion = body.field("app_version")
        osVersion = body.field("os_version")
        deviceModel = body.field("device_model")
        if body.has("permission") { permission = .set(body.optionalChoice("permission", of: Permission.self)) }
        body.refuseTags()
        if body.has("app_tags") { appTags = body.appTags() }
        if body.has("tokens") {
            tokens = body.registeredTokens(app: app)
        }
        keeps = body.keptPurposes()
        replaces = body.optionalToken("replaces")
        body.finish()
        guard body.problems.isEmpty else { return nil }
    }
}

extension JSONObjectReader {
    fileprivate mutating func field(_ key: String) -> InstallationPatch.Field<String> {
        has(key) ? .set(deviceText(key)) : .untouched
    }
}

extension InstallationPatch {
    static let request = JSONSchema.request(
        "InstallationChange",
        [
            .optional("user", .user.orNull, "The signed-in user; null for none."),
            .optional("tokens", RegisteredToken.list, "All its tokens, as in a registration."),
            .omissible("keeps", RegisteredToken.keptPurposes),
            .omissible(
                "replaces", .deviceToken,
                """
                A token of an earlier installation of the same device, which is over. With a device credential only of the same user, or \
                of none.
                """
            ),
            .optional("expected_user", .user.orNull, "Refuse with 409 unless exactly this user is signed in now; null: unless no user is."),
        ] + InstallationProfile.stated)
}
