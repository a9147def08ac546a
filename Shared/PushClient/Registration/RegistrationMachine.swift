import Foundation

/// Decides what the client tells the server, and when. Events go in, actions come out; it does no input or output itself.
///
/// One request is in flight at most. Each request is made from the newest state, so a state that was overtaken is never uploaded.
struct RegistrationMachine: Sendable {
    struct Rules: Hashable, Sendable {
        /// The registration waits until each of these but start tokens has an answer in this launch, or ``tokenPatience`` is over.
        var purposes: Set<PushTokenPurpose> = [.alert]
        /// False: the app's own backend authorises each request.
        var needsCredential = false
        /// A request, or the app's answer about a credential, that takes longer counts as lost.
        var patience = Duration.seconds(60)
        /// How long the first receipt waits for others.
        var receiptDelay = Duration.seconds(30)
        /// How long a registration with the alert token waits for the other purposes. The system may never answer for one: an iPad app on
        /// Apple Vision Pro gets neither a token of location pushes nor a failure (Apple, "startMonitoringLocationPushes(completion:)").
        var tokenPatience = Duration.seconds(30)
        /// An opened app states an older registration again, for the server may have come to doubt a token since.
        var freshness = Duration.seconds(24 * 60 * 60)
    }

    enum Event: Sendable {
        case token(PushToken)
        /// The system gave no token. One that it gave in this launch still counts, and the server keeps one of an earlier launch.
        case tokenFailed(PushTokenPurpose)
        /// There is no token for this purpose now: the server retires the one that it has.
        case noToken(PushTokenPurpose)
        case signIn(String)
        case signOut
        case deregister
        case profile(PushProfile)
        case receipt(PushReceipt)
        case activity(ActivityName, ActivityToken)
        case activityEnded(ActivityName)
        /// ActivityKit lists these of the type as running. The process has followed the type for so long, in running time.
        case activities([ActivityName], type: String, age: Duration)
        case opened
        /// The network came back, or the app says so.
        case retryNow
        case answered(Int, Answer)
        case credential(Int, CredentialAnswer)
        case timeIsUp(Int)
    }

    enum Action: Hashable, Sendable {
        /// Store ``record`` before any later action of the same list.
        case save
        /// Store ``credential``.
        case saveCredential
        case send(Upload, credential: DeviceCredential?, number: Int)
        case fetchCredential(user: String?, number: Int)
        case wake(after: Duration, number: Int)
        case notice(PushNotice)
    }

    enum Answer: Hashable, Sendable {
        case response(status: Int, code: String?, retryAfter: Duration?)
        /// No answer came; the server may have done the request.
        case lost
    }

    enum CredentialAnswer: Hashable, Sendable {
        case granted(DeviceCredential)
        /// The app's backend gives none: for it, this user is not signed in here.
        case refused
        /// The backend could not be asked.
        case failed
    }

    enum Phase: Hashable, Sendable {
        case resting
        case fetching(user: String?)
        case sending(Upload)
        /// The server's `Retry-After` is obeyed; other delays end early when the network comes back.
        case waiting(mayHurry: Bool)
    }

    let rules: Rules
    var record: RegistrationRecord
    var credential: HeldCredential?
    var phase = Phase.resting

    // What holds for this launch only.
    var tokens: [PushTokenPurpose: PushToken] = [:]
    /// The system could not say. The server may have a token of an earlier launch, which still works.
    var failed: Set<PushTokenPurpose> = []
    /// The system has said that there is no token.
    var absent: Set<PushTokenPurpose> = []
    var activities = ActivityBook()
    /// Activities whose report was answered 404 in this launch.
    var unknownActivities: Set<String> = []
    /// What this launch has registered, or nothing if it has deregistered; nil before. So each launch states it, also when nothing changed.
    var stated: Upload.TokenList?
    /// A refusal that the same state would meet again. A new state, an opened app or a new launch ends it.
    var isRefused = false
    /// The present request was made from an older state.
    var isOvertaken = false
    /// A user has signed in since the present request left, perhaps the same one: a refusal of its session says nothing of the new one.
    var hasNewSession = false
    /// Former users whose sign-out was refused. The next one names another user, until that of each was refused.
    var setAside: Set<String> = []
    var receiptsAreDue = false
    var receiptTimer: Int?
    /// Runs since the last registration of this launch.
    var freshnessTimer: Int?
    /// The last registration is older than ``Rules/freshness``.
    var isStale = false
    /// The time of ``Rules/tokenPatience`` has begun in this launch.
    var isPatienceLimited = false
    var delay = RetryBackoff()
    /// Belief from before the request in flight.
    var beliefBefore: ServerBelief
    /// The credential was renewed for the present request: a second refusal is a failure.
    var hasRenewed = false
    /// The number of the present phase. Answers and timers of earlier ones count for nothing.
    var number = 0

    init(record: RegistrationRecord, credential: HeldCredential?, rules: Rules) {
        self.record = record
        self.credential = credential
        self.rules = rules
        beliefBefore = record.server
        receiptsAreDue = !record.receipts.pending.isEmpty
    }

    /// Begins what an earlier launch has left to do.
    mutating func start() -> [Action] { advance() }

    /// - Parameter random: A number in 0..<1, for the jitter of delays.
    mutating func handle(_ event: Event, random: Double) -> [Action] {
        switch event {
        case .token(let token):
            // An adaptor that reads its token whenever the app is opened says nothing new.
            guard tokens[token.purpose] != token else { return advance() }
            tokens[token.purpose] = token
            failed.remove(token.purpose)
            absent.remove(token.purpose)
            guard record.desired.presence != .deregistered else { return [] }
            stated = nil
            isRefused = false
            isOvertaken = true
            return advance()
        case .tokenFailed(let purpose) where !purpose.isStart:
            // After "none now" the server has none that it could keep.
            if tokens[purpose] == nil, !absent.contains(purpose) { failed.insert(purpose) }
            return advance()
        // Of a start token the failure says that Live Activities are switched off.
        case .tokenFailed(let purpose), .noToken(let purpose):
            tokens[purpose] = nil
            failed.remove(purpose)
            absent.insert(purpose)
            return advance()
        case .signIn(let user):
            // The same user may sign in again because the session was over.
            if isRefused { encourage() } else { hurry() }
            hasNewSession = true
            return want { $0.presence = .signedIn(user) }
        case .signOut:
            guard record.desired.presence != .deregistered else { return [] }
            return want { $0.presence = .signedOut }
        case .deregister: return want { $0.presence = .deregistered }
        case .profile(let profile): return want { $0.profile = profile }
        case .receipt(let receipt): return add(receipt)
        case .activity(let name, let token):
            guard activities.put(token, of: name.instance) else { return [] }
            return know { $0.see(name, type: token.fullType, user: $1) }
        case .activityEnded(let name):
            activities.end(name.instance)
            return know { $0.end(name, user: $1) }
        case .activities(let running, let type, let age):
            return know { $0.compare(with: running, type: type, age: age, user: $1) }
        case .opened:
            encourage()
            activities.forgetRefusals()
            if isStale, tokensAreComplete, record.desired.presence != .deregistered { (stated, isStale) = (nil, false) }
            return advance()
        case .retryNow:
            encourage()
            return advance()
        case .answered(let number, let answer):
            guard number == self.number, case .sending(let upload) = phase else { return [] }
            return settle(upload, answer, random: random)
        case .credential(let number, let answer):
            guard number == self.number, case .fetching(let user) = phase else { return [] }
            return settle(answer, for: user, random: random)
        case .timeIsUp(let number): return timeIsUp(number, random: random)
        }
    }

    private mutating func want(_ change: (inout DesiredState) -> Void) -> [Action] {
        var wanted = record.desired
        change(&wanted)
        let isNew = wanted != record.desired
        guard isNew else { return advance() }
        if wanted.presence != record.desired.presence { hurry() }
        // The server ends the former user's activities on this device. If that user signs in again, it shall hear of those that still run.
        if wanted.user != record.desired.user { activities.forgetReports() }
        record.desired = wanted
        isRefused = false
        isOvertaken = true
        return [.save] + advance()
    }

    private mutating func know(_ change: (inout KnownActivities, _ user: String?) -> Void) -> [Action] {
        let before = record.activities
        change(&record.activities, record.desired.user)
        tidyActivities()
        return (record.activities == before ? [] : [.save]) + advance()
    }

    /// Forgets the tokens of activities that are over, and ends that the server does not need.
    mutating func tidyActivities() {
        if let owners = record.server.owners, owners.count == 1 {
            record.activities.forgetEnds(ofOthersThan: [owners[0], record.desired.user])
        }
        activities.keep(record.activities.isRunning)
    }

    /// A good moment.
    private mutating func encourage() {
        isRefused = false
        receiptsAreDue = !record.receipts.pending.isEmpty
        hurry()
    }

    private mutating func hurry() {
        if case .waiting(mayHurry: true) = phase { phase = .resting }
    }

    private mutating func add(_ receipt: PushReceipt) -> [Action] {
        guard record.receipts.add(receipt) else { return [] }
        if record.receipts.pending.count >= ReceiptBook.batch { receiptsAreDue = true }
        guard !receiptsAreDue, receiptTimer == nil else { return [.save] + advance() }
        // A number of its own: it runs beside whatever the present phase waits for.
        let timer = -2 * number - 1
        receiptTimer = timer
        return [.save, .wake(after: rules.receiptDelay, number: timer)] + advance()
    }

    private mutating func timeIsUp(_ number: Int, random: Double) -> [Action] {
        if number == receiptTimer {
            receiptTimer = nil
            receiptsAreDue = !record.receipts.pending.isEmpty
            return advance()
        }
        if number == freshnessTimer {
            isStale = true
            return []
        }
        if number == Self.tokenTimer {
            // As after a failure: a token that comes later registers again.
            failed.formUnion(unansweredPurposes)
            return advance()
        }
        guard number == self.number else { return [] }
        switch phase {
        case .resting: return []
        case .waiting:
            phase = .resting
            return advance()
        case .sending(let upload): return settle(upload, .lost, random: random)
        case .fetching(let user): return settle(.failed, for: user, random: random)
        }
    }
}

extension RegistrationMachine {
    /// - Throws: What the store throws. The caller tries again later: an unreadable store is not a new device.
    init(_ configuration: PushConfiguration) throws {
        let store = configuration.store
        let known = try store.read(.installation).flatMap { UUID(uuidString: String(decoding: $0, as: UTF8.self)) }
        let installation = known ?? UUID()
        // After a reinstall the keychain still has the id, and the server may still have a user for it.
        var record = RegistrationRecord(installation: installation, server: known == nil ? .new : .lost)
        if let data = try store.read(.record), let stored = try? JSONDecoder().decode(RegistrationRecord.self, from: data),
            stored.installation == known
        {
            record = stored
        }
        let credential =
            known == nil ? nil : try store.read(.credential).flatMap { try? JSONDecoder().decode(HeldCredential.self, from: $0) }
        if known == nil { try store.write(Data(installation.uuidString.utf8), for: .installation) }

        var rules = Rules(purposes: configuration.purposes, patience: configuration.patience, receiptDelay: configuration.receiptDelay)
        if case .tokenService = configuration.server { rules.needsCredential = true }
        self.init(record: record, credential: credential, rules: rules)
    }

    /// What these ask to store.
    static func items(of actions: [Action]) -> Set<PushStoreItem> {
        Set(
            actions.compactMap { action in
                switch action {
                case .save: .record
                case .saveCredential: .credential
                case .notice, .wake, .send, .fetchCredential: nil
                }
            })
    }

    /// Writes the present state.
    func save(_ items: Set<PushStoreItem>, to store: any PushStore) throws {
        if items.contains(.record) { try store.write(JSONEncoder().encode(record), for: .record) }
        if items.contains(.credential) { try store.write(credential.map { try JSONEncoder().encode($0) }, for: .credential) }
    }

    /// A request is in flight, or the app is asked for a credential.
    var isBusy: Bool {
        switch phase {
        case .sending, .fetching: true
        case .resting, .waiting: false
        }
    }

    var isUploaded: Bool {
        guard phase == .resting else { return false }
        switch record.desired.presence {
        case .signedIn: return stated != nil && !isRefused && nextRegistration() == nil && nextActivity() == nil
        case .signedOut: return !record.server.mayHaveOwner(otherThan: nil) && (isRefused || nextRegistration() == nil)
        case .deregistered: return record.server.existence == .absent && stated != nil
        }
    }
}

/// What the app wants the server to know. It is durable, and the client uploads it until the server has it.
struct DesiredState: Codable, Hashable, Sendable {
    enum Presence: Codable, Hashable, Sendable {
        case signedIn(String)
        case signedOut
        /// The server shall forget the installation, until the app signs a user in again.
        case deregistered
    }

    var presence = Presence.signedOut
    var profile = PushProfile()

    var user: String? {
        if case .signedIn(let user) = presence { user } else { nil }
    }

    var claim: Claim { Claim(user: user, profile: profile) }
}

/// User and profile of an installation: what a registration states beside the tokens.
struct Claim: Codable, Hashable, Sendable {
    var user: String?
    var profile: PushProfile
}
