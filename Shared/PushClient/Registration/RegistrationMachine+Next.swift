public import Foundation

/// What to do next.
extension RegistrationMachine {
    mutating func advance() -> [Action] { limitPatience() + sendNext() }

    private mutating func sendNext() -> [Action] {
        guard phase == .resting, let upload = nextUpload() else { return [] }
        number += 1
        (isOvertaken, hasNewSession) = (false, false)
        if case .of(let user) = missingCredential(for: upload) {
            phase = .fetching(user: user)
            return [.fetchCredential(user: user, number: number), .wake(after: rules.patience, number: number)]
        }
        phase = .sending(upload)
        let known = record.activities
        if case .reportActivity(let name, _, _) = upload {
            activities.begin(name)
            record.activities.begin(name, for: record.desired.user)
        }
        beliefBefore = record.server
        record.server.begin(upload)
        // First the doubt goes to the store, then the request leaves: a kill between the two must not leave a false certainty.
        let save: [Action] = record.server == beliefBefore && record.activities == known ? [] : [.save]
        return save + [
            .send(upload, credential: credential?.credential, number: number), .wake(after: rules.patience, number: number),
        ]
    }

    func nextUpload() -> Upload? {
        if !isRefused, let upload = nextRegistration() ?? nextActivity() { return upload }
        guard receiptsAreDue, !record.receipts.pending.isEmpty else { return nil }
        return .receipts(Array(record.receipts.pending.prefix(ReceiptBook.batch)))
    }

    /// Once this launch has registered: the server takes no activity of an installation that it does not know.
    func nextActivity() -> Upload? {
        guard stated != nil, record.server.existence == .registered, record.desired.presence != .deregistered else { return nil }
        let user = record.desired.user
        if let ended = record.activities.ended(of: user) { return .endActivity(ended) }
        return activities.next(of: record.activities.running(of: user)).map { .reportActivity($0.name, $0.token, expected) }
    }

    func nextRegistration() -> Upload? {
        let server = record.server
        let user = record.desired.user
        switch record.desired.presence {
        // A credential without a user is to be given up. After the restore of an old backup it is the only sign of a user at the server.
        case .deregistered:
            // A spent credential can sign out, but not deregister.
            if credential?.isSpent == true, credential?.user != nil { return .signOut(expectedAtEnd) }
            // A credential without a user cannot deregister a user's installation. It can state first that no user is signed in.
            if rules.needsCredential, server.existence != .absent, server.owners == nil, credential?.user == nil {
                return .change(Upload.Registration(claim: record.desired.claim, tokens: [], expected: .anyone))
            }
            return server.existence != .absent || credential != nil || stated == nil ? .deregister(expectedAtEnd) : nil
        case .signedOut:
            if credential?.user != nil || server.mayHaveOwner(otherThan: nil) && canEnd { return .signOut(expectedAtEnd) }
        case .signedIn(let user):
            // The former user's credential can sign out, also before the backend has given one for the new user.
            if let former = credential?.user, former != user, server.mayHaveOwner(otherThan: user) {
                return .signOut(expectedAtEnd)
            }
        }
        let claim = record.desired.claim
        if tokensAreComplete {
            let list = tokenList
            guard stated != list || server.confirmed != claim else { return nil }
            return .register(Upload.Registration(claim: claim, tokens: list.tokens, keeps: list.keeps, expected: expected))
        }
        if server.existence == .registered {
            return server.confirmed == claim ? nil : .change(Upload.Registration(claim: claim, tokens: [], expected: expected))
        }
        // The token may be long in coming, and until then the server must not push for an earlier user.
        guard server.mayHaveOwner(otherThan: user) else { return nil }
        // A sign-out that names no former user, or goes with the present one's credential, would sign out the present one.
        if user != nil, !canEnd || formerOwners.isEmpty || credential?.user == user {
            return .change(Upload.Registration(claim: claim, tokens: [], expected: expected))
        }
        return canEnd ? .signOut(expectedAtEnd) : nil
    }

    /// A registration waits for each purpose that the app uses but start tokens: for its token, the answer that there is none, or a
    /// failure. It does not go with start tokens alone if the app uses others.
    var tokensAreComplete: Bool {
        guard unansweredPurposes.isEmpty else { return false }
        return rules.purposes.allSatisfy(\.isStart) ? !tokens.isEmpty : tokens.keys.contains { !$0.isStart }
    }

    private var tokenList: Upload.TokenList {
        Upload.TokenList(tokens: tokens.values.sorted { $0.purpose.rawValue < $1.purpose.rawValue }, keeps: failed)
    }

    /// The number of the timer of ``Rules/tokenPatience``. The other timers beside the phases count down from -1, and do not get there.
    static let tokenTimer = Int.min

    /// Begins the time in which the other purposes may get an answer, once there is one for alerts and a token to register.
    private mutating func limitPatience() -> [Action] {
        guard !isPatienceLimited, tokens.keys.contains(where: { !$0.isStart }) else { return [] }
        let unanswered = unansweredPurposes
        guard !unanswered.isEmpty, !unanswered.contains(.alert) else { return [] }
        isPatienceLimited = true
        return [.wake(after: rules.tokenPatience, number: Self.tokenTimer)]
    }

    /// The purposes for which the system has given this launch neither a token nor a failure, and has not said that there is none.
    var unansweredPurposes: Set<PushTokenPurpose> {
        rules.purposes.filter { !$0.isStart && tokens[$0] == nil && !failed.contains($0) && !absent.contains($0) }
    }

    /// Whether a request that ends a user's time can be authorised: a credential signs out its own user only.
    private var canEnd: Bool { !rules.needsCredential || credential?.user != nil || onlyFormerOwner != nil }

    /// `PUT` and `PATCH` succeed if exactly this user is signed in.
    private var expected: ExpectedUser {
        guard let owners = record.server.owners, owners.count == 1 else { return .anyone }
        return .exactly(owners[0])
    }

    /// A logout and a deregistration also succeed if no user is signed in, so several candidates may stand beside null. A backend takes
    /// them with a session that is over only if they name its user. So they name one candidate after the other, the newest first.
    private var expectedAtEnd: ExpectedUser {
        let user = rules.needsCredential ? onlyFormerOwner : formerOwners.last { !setAside.contains($0) } ?? formerOwners.last
        return user.map { .exactly($0) } ?? .anyone
    }

    private var onlyFormerOwner: String? { formerOwners.count == 1 ? formerOwners[0] : nil }

    /// Whom the server may have, but not the user who is signed in here now.
    var formerOwners: [String] { (record.server.owners ?? []).compactMap { $0 }.filter { $0 != record.desired.user } }

    private enum MissingCredential {
        case none
        case of(String?)
    }

    private func missingCredential(for upload: Upload) -> MissingCredential {
        guard rules.needsCredential else { return .none }
        switch upload {
        case .register(let registration), .change(let registration):
            return isUsable && credential?.user == registration.claim.user ? .none : .of(registration.claim.user)
        case .signOut: return credential?.user != nil ? .none : .of(onlyFormerOwner)
        case .deregister: return isUsable ? .none : .of(onlyFormerOwner)
        case .receipts: return isUsable ? .none : .of(record.desired.user)
        case .reportActivity, .endActivity:
            return isUsable && credential?.user == record.desired.user ? .none : .of(record.desired.user)
        }
    }

    private var isUsable: Bool { credential?.isSpent == false }
}

/// What the client keeps over launches, beside the credential. It holds no token.
struct RegistrationRecord: Codable, Hashable, Sendable {
    /// If the stored one is another than the keychain's, a backup of another device was restored here, and the record counts for nothing.
    var installation: UUID
    var desired = DesiredState()
    var server: ServerBelief
    var receipts = ReceiptBook()
    var activities = KnownActivities()
}

/// A scoped, short-lived key for one user and installation. The app's backend gets it from the platform and hands it to the app.
public struct DeviceCredential: Codable, Sendable, Hashable {
    /// `psd_…`
    public var credential: String

    /// - Parameter answer: The platform's answer to `POST …/device-credentials`; fields beside `credential` are ignored, for the server
    ///   says when a credential is over.
    public init(answer: Data) throws {
        self = try JSONDecoder().decode(DeviceCredential.self, from: answer)
    }

    /// - Parameter credential: The text alone, `psd_…`; it is not checked.
    public init(_ credential: String) {
        self.credential = credential
    }
}

extension DeviceCredential: CustomStringConvertible {
    /// Logs must not hold credentials.
    public var description: String { "a device credential" }
}

/// A credential with the user that it is for.
struct HeldCredential: Codable, Hashable, Sendable {
    /// Nil: for no user.
    var user: String?
    var credential: DeviceCredential
    /// The server called it expired or revoked. It may still sign out its user, so the client keeps it until it has another.
    var isSpent = false
}

/// One request to the server.
enum Upload: Hashable, Sendable {
    /// `PUT`: everything about the installation. Only with tokens of this launch.
    case register(Registration)
    /// `PATCH`: user and profile, while the tokens of this launch are not there. It leaves the server's tokens alone.
    case change(Registration)
    case signOut(ExpectedUser)
    case deregister(ExpectedUser)
    case receipts([PushReceipt])
    case reportActivity(ActivityName, ActivityToken, ExpectedUser)
    case endActivity(ActivityName)

    struct Registration: Hashable, Sendable {
        var claim: Claim
        var tokens: [PushToken]
        /// The server keeps the tokens of these purposes, though the list names none.
        var keeps: Set<PushTokenPurpose> = []
        var expected: ExpectedUser

        var list: TokenList { TokenList(tokens: tokens, keeps: keeps) }
    }

    /// What a registration says of tokens. The server retires those that it neither lists nor keeps, but start tokens.
    struct TokenList: Hashable, Sendable {
        var tokens: [PushToken] = []
        var keeps: Set<PushTokenPurpose> = []
    }

    var expected: ExpectedUser {
        switch self {
        case .register(let registration), .change(let registration): registration.expected
        case .signOut(let expected), .deregister(let expected), .reportActivity(_, _, let expected): expected
        case .receipts, .endActivity: .anyone
        }
    }

    var operation: PushOperation {
        switch self {
        case .register: .register
        case .change: .change
        case .signOut: .signOut
        case .deregister: .deregister
        case .receipts: .receipts
        case .reportActivity: .reportActivity
        case .endActivity: .endActivity
        }
    }
}

/// Whom the server must have as the owner, or refuse: a request that comes late then changes nothing.
enum ExpectedUser: Hashable, Sendable {
    case anyone
    case exactly(String?)
}
