import Foundation

/// The app's side of the platform: it keeps the server's registration equal to what the app wants, over kills and weeks without network.
///
/// Any thread may make it and call it, before or after the system's callbacks. Every call returns at once. What it says is durable
/// when it returns, and the client uploads it as soon as it can. One client is enough for a process.
public final class PushClient: Sendable {
    private struct State {
        /// Nil until the store could be read, and the early changes of the profile have run.
        var machine: RegistrationMachine?
        /// Calls from before that.
        var early: [@Sendable (inout RegistrationMachine) -> [RegistrationMachine.Action]] = []
        /// Changes of the profile from before that. They are the app's code, so they run outside the lock.
        var earlyChanges: [@Sendable (inout PushProfile) -> Void] = []
        /// A thread has read the store, and runs them.
        var isOpening = false
        /// What could not be written yet.
        var unsaved: Set<PushStoreItem> = []
        var timer: (number: Int, task: Task<Void, Never>)?
        var waiters: [CheckedContinuation<Void, Never>] = []
        /// The length of the last wait.
        var delay = Duration.zero
        var urgent: Int?

        /// The number of what a suspension must not cut: a request in flight, or an attempt within ``PushClient/patienceInBackground``.
        var nowUrgent: Int? {
            switch machine?.phase {
            case .sending, .fetching: machine?.number
            case .waiting: delay <= PushClient.patienceInBackground ? machine?.number : nil
            case .resting, nil: nil
            }
        }
    }

    /// The system's time is short: a longer wait would only use it up.
    static let patienceInBackground = Duration.seconds(10)

    let configuration: PushConfiguration
    private let clock: any PushClock
    private let random: @Sendable () -> Double
    private let inbox: PushInbox
    private let hold = BackgroundHold()
    private let state = Guarded(State())

    private let notices = HandoverQueue<PushNotice>(capacity: 256)
    private let notifications = HandoverQueue<PushNotification>(capacity: 256)
    private let taps = HandoverQueue<(PushTap, handled: @Sendable () -> Void)>(capacity: 256)

    /// Begins at once: it reads the store, takes what the inbox has kept, and goes on with what earlier launches have left to do.
    ///
    /// - Parameters:
    ///   - inbox: Where the adaptors put the system's events. Tests give each client one of its own.
    ///   - clock: For tests.
    ///   - random: In 0..<1, for the jitter of delays; for tests.
    public init(
        _ configuration: PushConfiguration, inbox: PushInbox = .shared, clock: any PushClock = SystemPushClock(),
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) }
    ) {
        self.configuration = configuration
        self.clock = clock
        self.random = random
        self.inbox = inbox
        change { _ in [] }
        inbox.attach(settled: { [weak self] in await self?.settled() }) { [weak self] entry in
            guard let self else { return false }
            self.receive(entry)
            return true
        }
    }

    // MARK: What the app says

    /// This user is signed in on this device from now on. The same user again uploads what
    /// waits since the session was over, and changes nothing else.
    ///
    /// - Parameter user: The user's name as the backend knows it, at most 256 bytes without control characters.
    public func signIn(as user: String) { handle(.signIn(user)) }

    /// No user is signed in on this device from now on. The server learns it as soon as it can, also after a restart.
    ///
    /// "Sign out everywhere" is a call of the backend's (`POST /v1/apps/{app}/users/{user}/logout`).
    public func signOut() { handle(.signOut) }

    /// The server shall forget this installation, until ``signIn(as:)``.
    public func deregister() { handle(.deregister) }

    /// Changes what the app says about its installation, in one step.
    ///
    /// - Parameter change: It may call the client. If the profile has changed while it ran, it runs again with the newer one. If the store
    ///   cannot be read yet, it runs later, on any thread.
    public func updateProfile(_ change: @escaping @Sendable (inout PushProfile) -> Void) {
        while let before = profile(orKeep: change) {
            var after = before
            change(&after)
            if replace(before, by: after) { return }
        }
        // The store could not be read before. Perhaps it can now.
        self.change { _ in [] }
    }

    /// The network came back, or the person opened the app: the client does not wait any longer. A server's `Retry-After` still counts.
    public func retryNow() { handle(.retryNow) }

    /// Reports what happened to a notification. The same event of a source again counts once.
    public func report(_ event: PushReceipt.Event, of source: PushSource) {
        handle(.receipt(PushReceipt(source: source, event: event, at: clock.now)))
    }

    /// Takes over receipts that a service extension has left (``ReceiptFolder``).
    ///
    /// - Returns: False while the store cannot be read or written: then they are in memory only.
    func add(_ receipts: [PushReceipt]) -> Bool {
        let random = random()
        change { machine in receipts.flatMap { machine.handle(.receipt($0), random: random) } }
        return state.withLock { $0.machine != nil && $0.unsaved.isEmpty }
    }

    // MARK: What the app hears

    /// The handler gets each notice once, in order, also those from before this call. It runs on any thread, and may call the client.
    public func onNotice(_ handler: @escaping @Sendable (PushNotice) -> Void) {
        notices.attach {
            handler($0); return true
        }
    }

    /// The handler gets each notification that arrived while the app ran, once and in order, also those from before this call.
    public func onNotification(_ handler: @escaping @Sendable (PushNotification) -> Void) {
        notifications.attach {
            handler($0); return true
        }
    }

    /// Each tap, action and dismissal goes to one handler of these, once, also those from before this call. The handlers begin in order,
    /// on the main actor; a later one does not wait for the end of an earlier one.
    public func onTap(_ routes: PushRoutes) {
        taps.attach { tap, handled in
            Task { @MainActor in
                await routes.handle(tap)
                handled()
            }
            return true
        }
    }

    /// What the client wants the server to know, and how far it is. Nil while the store cannot be read.
    public var status: PushStatus? {
        state.withLock { state in state.machine.map(PushStatus.init) }
    }

    /// Returns when no request is in flight: everything is uploaded, or the client waits before it tries again. For the app's own work in
    /// the background; the client's requests take background time by themselves (``BackgroundTime``).
    public func settled() async {
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state in
                guard state.machine?.isBusy == true else { return true }
                state.waiters.append(continuation)
                return false
            }
            if isIdle { continuation.resume() }
        }
    }

    // MARK: The system's events

    private func receive(_ entry: PushInbox.Entry) {
        switch entry.event {
        case .token(let bytes, let purpose):
            guard let environment = configuration.environment else {
                notices.put(.tokenFailed(purpose: purpose, message: PushEnvironment.NoEntitlement().description))
                return handle(.tokenFailed(purpose))
            }
            handle(.token(PushToken(bytes, purpose: purpose, environment: environment)))
        case .tokenFailed(let purpose, let message):
            notices.put(.tokenFailed(purpose: purpose, message: message))
            handle(.tokenFailed(purpose))
        case .tokenPending(let purpose): handle(.tokenFailed(purpose))
        case .noToken(let purpose): handle(.noToken(purpose))
        case .activityToken(let bytes, let activity, let instance, let type, let fullType, let frequentUpdates, let channel):
            guard let environment = configuration.environment else { return }
            let token = ActivityToken(
                bytes, environment: environment, attributesType: type, fullType: fullType, frequentUpdates: frequentUpdates,
                channel: channel)
            handle(.activity(ActivityName(id: activity, instance: instance ?? activity), token))
        case .activityEnded(let activity, let instance):
            handle(.activityEnded(ActivityName(id: activity, instance: instance ?? activity)))
        case .activities(let running, let type, let age):
            handle(
                .activities(
                    running.map { ActivityName(id: $0.value, instance: $0.key) }.sorted { $0.instance < $1.instance }, type: type, age: age)
            )
        case .opened: handle(.opened)
        case .goodMoment: retryNow()
        case .notification(let notification): notifications.put(notification)
        case .tap(let tap):
            if let source = tap.notification.source { report(tap.action == .dismiss ? .dismissed : .opened, of: source) }
            taps.put((tap, handled: entry.handled))
        }
    }

    // MARK: The machine

    private func handle(_ event: RegistrationMachine.Event) {
        let random = random()
        change { $0.handle(event, random: random) }
    }

    /// Returns nil, and keeps the change, as long as there is no machine.
    private func profile(orKeep change: @escaping @Sendable (inout PushProfile) -> Void) -> PushProfile? {
        state.withLock { state in
            if state.machine == nil { state.earlyChanges.append(change) }
            return state.machine?.record.desired.profile
        }
    }

    /// Returns false, and replaces nothing, if the profile is no longer `before`.
    private func replace(_ before: PushProfile, by after: PushProfile) -> Bool {
        let isReplaced = Guarded(false)
        let random = random()
        change { machine in
            guard machine.record.desired.profile == before else { return [] }
            isReplaced.withLock { $0 = true }
            return machine.handle(.profile(after), random: random)
        }
        return isReplaced.withLock { $0 }
    }

    private func change(_ body: @escaping @Sendable (inout RegistrationMachine) -> [RegistrationMachine.Action]) {
        state.withLock { $0.early.append(body) }
        do {
            try open()
        } catch {
            return notices.put(.storeFailed(message: "\(error)"))
        }
        let (actions, waiters, isUrgent) = state.withLock { state in
            let actions = run(&state)
            for case .wake(let delay, let number) in actions where number >= 0 { state.delay = delay }
            let isUrgent = state.urgent != nil || state.nowUrgent != nil
            state.urgent = state.nowUrgent
            let waiters = state.machine?.isBusy == true ? [] : state.waiters
            if !waiters.isEmpty { state.waiters = [] }
            return (actions, waiters, isUrgent)
        }
        for action in actions { perform(action) }
        for waiter in waiters { waiter.resume() }
        guard isUrgent, let time = inbox.backgroundTime else { return }
        // Read there: of two changes at once, the later update must see the newer state.
        Task { @MainActor in self.hold.update(time, for: self.state.withLock { $0.urgent }) }
    }

    /// Makes the machine once the store can be read. One thread does it, and meanwhile the calls of others wait.
    private func open() throws {
        let stored = try state.withLock { state -> RegistrationMachine? in
            guard state.machine == nil, !state.isOpening else { return nil }
            let stored = try RegistrationMachine(configuration)
            state.isOpening = true
            return stored
        }
        guard let stored else { return }
        var profile = stored.record.desired.profile
        while case let changes = earlyChanges(orBegin: stored, with: profile), !changes.isEmpty {
            for change in changes { change(&profile) }
        }
    }

    /// Takes the early changes that have not run yet. If there are none, the machine begins with this profile.
    private func earlyChanges(
        orBegin stored: RegistrationMachine, with profile: PushProfile
    ) -> [@Sendable (inout PushProfile) -> Void] {
        let random = random()
        return state.withLock { state in
            let changes = state.earlyChanges
            state.earlyChanges = []
            guard changes.isEmpty else { return changes }
            state.machine = stored
            state.isOpening = false
            state.early.insert({ $0.handle(.profile(profile), random: random) + $0.start() }, at: 0)
            return []
        }
    }

    /// Runs the calls that wait, and stores what they changed before anyone acts on it. What cannot be written is written with the next
    /// change; until then no request leaves, and the time that it has runs on.
    private func run(_ state: inout State) -> [RegistrationMachine.Action] {
        guard var machine = state.machine else { return [] }
        var actions: [RegistrationMachine.Action] = []
        for body in state.early { actions += body(&machine) }
        state.early = []
        state.machine = machine
        state.unsaved.formUnion(RegistrationMachine.items(of: actions))
        do {
            try machine.save(state.unsaved, to: configuration.store)
            state.unsaved = []
        } catch {
            actions.removeAll { if case .send = $0 { true } else { false } }
            actions.append(.notice(.storeFailed(message: "\(error)")))
        }
        return actions
    }

    private func perform(_ action: RegistrationMachine.Action) {
        switch action {
        // Done already, under the lock: the order of writes is that of the states.
        case .save, .saveCredential: break
        case .notice(let notice): notices.put(notice)
        case .wake(let duration, let number): wake(after: duration, number)
        case .send(let upload, let credential, let number):
            Task { self.handle(.answered(number, await self.send(upload, credential))) }
        case .fetchCredential(let user, let number):
            Task { self.handle(.credential(number, await self.fetchCredential(of: user))) }
        }
    }

    private func wake(after duration: Duration, _ number: Int) {
        let task = Task { [weak self, clock] in
            guard (try? await clock.sleep(for: duration)) != nil else { return }
            self?.handle(.timeIsUp(number))
        }
        // A negative number is a timer that runs beside the phases. The timer of an earlier phase has nothing left to say.
        guard number >= 0 else { return }
        let earlier = state.withLock { state -> Task<Void, Never>? in
            guard number >= state.timer?.number ?? 0 else { return task }
            defer { state.timer = (number, task) }
            return state.timer?.task
        }
        earlier?.cancel()
    }

    private func send(_ upload: Upload, _ credential: DeviceCredential?) async -> RegistrationMachine.Answer {
        let transport =
            switch configuration.server {
            case .backend(let transport): transport
            case .tokenService(let transport, _): transport
            }
        guard let installation = status?.installation,
            let request = try? PushRequest(upload, app: configuration.app, installation: installation, credential: credential),
            let response = try? await transport.send(request)
        else { return .lost }
        return response.answer
    }

    private func fetchCredential(of user: String?) async -> RegistrationMachine.CredentialAnswer {
        guard case .tokenService(_, let credentials) = configuration.server, let installation = status?.installation else {
            return .refused
        }
        do {
            return try await credentials.credential(installation: installation, user: user).map { .granted($0) } ?? .refused
        } catch {
            return .failed
        }
    }
}
