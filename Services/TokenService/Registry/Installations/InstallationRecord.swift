import HTTPTypes
import OpenSSL
package import PushModel
import StrictJSON
package import TokenServiceApps
package import TokenServiceKit

/// An installation as the API shows it. Times are UNIX milliseconds.
package struct InstallationRecord: Equatable, Sendable {
    package var id: PushID
    package var user: String?
    package var ownerEpoch: Int64
    package var tokens: [Token]
    package var throttledUntil: Int64?
    package var registeredAt: Int64
    package var createdAt: Int64
    package var profile: InstallationProfile
    /// The backend's.
    package var tags: [String]
    package var fence: FenceState

    package struct Token: Equatable, Sendable {
        package var token: DeviceToken
        package var environment: String
        package var purpose: String
        package var registeredAt: Int64
        package var retired: Retirement?
        /// No start of a Live Activity goes to it.
        package var isDoubtful = false
        /// When APNs last said that it is over; it may have been registered again since.
        package var endedByAPNsAt: Int64?
        /// APNs has said so several times (``TokenState/EndsByAPNs/isRepeated``). False unless a registration or a change made the record.
        package var isEndedRepeatedly = false

        fileprivate var state: String { retired != nil ? "retired" : isDoubtful ? "doubtful" : "active" }
    }

    package struct Retirement: Equatable, Sendable {
        package var at: Int64
        package var reason: String
    }
}

extension InstallationRecord {
    init(_ row: InstallationState, tokens: [TokenState]) {
        let order = tokens.sorted { left, right in
            guard (left.retired == nil) == (right.retired == nil) else { return left.retired == nil }
            return (right.registeredAt, left.id ?? .max) < (left.registeredAt, right.id ?? .max)
        }
        self.init(
            id: row.key.id, user: row.owner, ownerEpoch: row.epoch, tokens: order.map { Token($0) }, throttledUntil: row.throttledUntil,
            registeredAt: row.registeredAt, createdAt: row.createdAt, profile: row.profile, tags: row.tags, fence: row.fence)
    }

    /// A strong entity tag (RFC 9110 section 8.8.3) of the fields that callers may change. Moments and a throttle do not count: a refresh
    /// by the device must not get in the way of a change by a backend.
    package var etag: String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(256)
        func add(_ text: String?) {
            bytes.append(contentsOf: (text ?? "").utf8)
            bytes.append(text == nil ? 0 : 1)
        }
        add(user)
        add(String(ownerEpoch))
        add(profile.locale)
        add(profile.timeZone)
        add(profile.appVersion)
        add(profile.osVersion)
        add(profile.deviceModel)
        add(profile.permission?.rawValue)
        InstallationTags.words(tags: tags, appTags: profile.appTags).forEach(add)
        let ordered =
            tokens.count < 2
            ? tokens : tokens.sorted { ($0.token.hex, $0.environment, $0.purpose) < ($1.token.hex, $1.environment, $1.purpose) }
        for token in ordered {
            add(token.environment)
            add(token.purpose)
            add(token.retired?.reason)
            bytes.append(contentsOf: token.token.bytes)
        }
        return "\"" + Base64URL.encode(Array(Digest.sha256(bytes).prefix(12))) + "\""
    }

    package static let hints = response(.hints)
    static let full = response(.full)
    static let pageHints = PageResponse.schema("Installations", "installations", of: hints)
    static let pageFull = PageResponse.schema("Installations", "installations", of: full)

    private static func response(_ shown: TokenDisplay) -> ResponseSchema<OfApp<InstallationRecord>> {
        .object("Installation", fields(shown))
    }

    /// The answer to a registration or a change.
    static let registered = answer("RegisteredInstallation", tags: .required("tags", tagList, tagMeaning) { $0.value.record.tags })

    /// The answer to an item of a list.
    package static let registeredItem = answer(
        "RegisteredItem",
        tags: .optional("tags", tagList, "The backend's, if the item states them.") {
            $0.value.hasStatedTags ? $0.value.record.tags : nil
        })

    package typealias Registered = ResponseSchema<OfApp<InstallationRegistration.Result>>

    private static func answer(_ name: String, tags: Registered.Field) -> Registered {
        .object(
            name,
            [
                .all(fieldsBesideTags(.hints)) { OfApp(app: $0.app, value: $0.value.record) }, tags,
                .required("warnings", .array(RegistrationWarning.response), "Legal but doubtful.") { $0.value.warnings },
            ])
    }

    private static let tagList = ResponseSchema<[String]>.array(.text(.tag))
    private static let tagMeaning = "The backend's: no registration changes them."

    private static func fields(_ shown: TokenDisplay) -> [ResponseSchema<OfApp<InstallationRecord>>.Field] {
        fieldsBesideTags(shown) + [.required("tags", tagList, tagMeaning) { $0.value.tags }]
    }

    private static func fieldsBesideTags(_ shown: TokenDisplay) -> [ResponseSchema<OfApp<InstallationRecord>>.Field] {
        [
            .required("app", .slug) { $0.app },
            .required("id", .uuid) { $0.value.id },
            .nullable("user", .text(.user), "The signed-in user; null for none.") { $0.value.user },
            .required("owner_epoch", .count, ownerEpochMeaning) { $0.value.ownerEpoch },
            .required("tokens", .array(Token.response(shown))) { $0.value.tokens },
            .optional("throttled_until", .time, "APNs asked to leave it alone until then.") { $0.value.throttledUntil },
            .required("registered_at", .time) { $0.value.registeredAt },
            .required("created_at", .time) { $0.value.createdAt },
            .all(InstallationProfile.texts) { $0.value.profile },
            .required("app_tags", .array(.text(.tag)), "The app's own.") { $0.value.profile.appTags },
            .required("fence", .fence) { $0.value.fence },
        ]
    }

    private static let ownerEpochMeaning = """
        Starts at 1. Grows by one with every change of the user, when the installation is deregistered, and when another user takes its \
        token: at once, or in the four days after a move of the token to another installation of its own user. Nothing of an earlier epoch \
        is sent.
        """
}

extension InstallationRecord.Token {
    package init(_ token: TokenState) {
        self.init(
            token: token.token, environment: token.environment.rawValue, purpose: token.purpose.rawValue,
            registeredAt: token.registeredAt, retired: token.retired.map { .init(at: $0.at, reason: $0.reason.rawValue) },
            isDoubtful: token.starts.isDoubtful, endedByAPNsAt: token.endsByAPNs.at, isEndedRepeatedly: token.endsByAPNs.isRepeated)
    }

    fileprivate static func response(_ shown: TokenDisplay) -> ResponseSchema<InstallationRecord.Token> {
        .object(
            "Token",
            [
                .optional("token", .deviceToken, "Only where `tokens=full` was asked for.") { shown == .full ? $0.token : nil },
                .required("hint", .text(.tokenHint)) { $0.token.hint },
            ] + fields)
    }

    /// All but which token it is.
    package static let fields: [ResponseSchema<InstallationRecord.Token>.Field] = [
        .required("environment", .text(.environment)) { $0.environment },
        .required("purpose", .text(.purpose)) { $0.purpose },
        .required("state", .text(.words(["active", "doubtful", "retired"])), stateMeaning) { $0.state },
        .required("registered_at", .time) { $0.registeredAt },
        .optional("retired_at", .time) { $0.retired?.at },
        .optional("retired_reason", .text(.words(["replaced", "removed", "deregistered", "gone", "rejected", "stale"]))) {
            $0.retired?.reason
        },
        .optional(
            "ended_by_apns_at", .time, "When APNs last said that the token is over. It may have been registered again since."
        ) { $0.endedByAPNsAt },
    ]

    private static let stateMeaning = """
        `doubtful`: of a start token. APNs accepts starts of Live Activities for it, and no activity is reported. None is sent to it until \
        the device registers a start token of the type again or reports an activity of the type, or until a day has passed.
        """
}

extension JSONSchema {
    package static let tokenHint = JSONSchema.string().example("…2c3d4e").described("The token's last six digits.")
}

extension APIRoute {
    package static let listUserInstallations = APIRoute(
        .get, "/v1/apps/{app}/users/{user}/installations", .read, .devices, audit: .tokensRead)
    package static let logOutUser = APIRoute(.post, "/v1/apps/{app}/users/{user}/logout", .devices)
    package static let setQuietHours = APIRoute(.put, "/v1/apps/{app}/users/{user}/quiet-hours", .devices)
    package static let readQuietHours = APIRoute(.get, "/v1/apps/{app}/users/{user}/quiet-hours", .read, .devices)
    package static let removeQuietHours = APIRoute(.delete, "/v1/apps/{app}/users/{user}/quiet-hours", .devices)
}

extension Resource {
    package static let users = Resource(
        "Users", "All installations on which a user is signed in.", [list, logOut, setQuietHours, readQuietHours, removeQuietHours])

    private static let list = Operation(
        .listUserInstallations, "listUserInstallations", "A user's installations, page by page",
        parameters: Parameter.installationFilters,
        answers: [
            Answer(
                200, "One page, by id. At 1 MiB of JSON it ends early, with a `next_cursor`.", .json(InstallationRecord.pageHints))
        ],
        problems: ProblemCode.page + [.invalidTime])

    private static let logOut = Operation(
        .logOutUser, "logOutUser", "Sign a user out everywhere, or everywhere else", "Idempotent.",
        request: .json(SignOut.ofUser, isRequired: false), answers: [Answer(200, "Signed out.", .json(SignOut.userResponse))])

    private static let setQuietHours = Operation(
        .setQuietHours, "setQuietHours", "Say when a user does not want to be disturbed",
        """
        By the clock where each device is; UTC where its time zone is not known. What comes meanwhile waits until the end, or until it \
        expires; `urgent` notifications do not wait. Concerns what is sent from now on. The user need not be signed in anywhere.
        """,
        request: .json(QuietHours.request), answers: [Answer(200, "Set, whatever was there before.", .json(QuietHours.response))])

    private static let readQuietHours = Operation(
        .readQuietHours, "readQuietHours", "When a user does not want to be disturbed",
        answers: [Answer(200, "Then; 404 where nothing was said.", .json(QuietHours.response))])

    private static let removeQuietHours = Operation(
        .removeQuietHours, "removeQuietHours", "Let a user be disturbed at any time", "Idempotent. What waits already goes on waiting.",
        answers: [Answer(204, "There are none now.")])
}
