import HTTP2
import OpenSSL
import SystemIO

/// One connection to APNs on one thread, from dialling to the end. Only this thread touches what is in here; others reach it through its
/// mailbox and the parking. It performs what `ConnectionState` decides.
///
/// A value, and never copied: the compiler then proves that no two accesses overlap, which for a class is checked while running, several
/// times for each answer.
struct ConnectionLoop: ~Copyable {
    let id: ConnectionID
    let context: PoolContext
    let wakeUp: WakeUp
    let commands: Mailbox<ConnectionCommand>
    let link: SecureLink
    let session: HTTP2ClientSession
    let poller: Poller
    var state: ConnectionState
    var token: ProviderTokenSlot?
    var headers: RequestHeaders

    // What is being worked on.
    var inFlight = InFlightTable()
    var shares = OpenShares()
    var taken: [Share] = []
    var givenBack: [Share] = []
    var finishedBatches: [APNsFinishedBatch] = []
    /// What is known of answers other than 200 whose end has not come.
    var partial: [Int32: PartialAnswer] = [:]
    /// Not later than the first deadline in flight.
    var nextDeadline: ContinuousClock.Instant?
    /// UNIX milliseconds: not later than the first expiry to come in flight.
    var nextExpiry: Int64?

    // Time, read once per round, and once more before requests are taken.
    var now: ContinuousClock.Instant
    var wall: Int64

    // Output.
    var plaintext: [UInt8] = []
    var isWriteBlocked = false
    private var isWriteWatched = false
    /// Position in the session's output up to which the kernel may have taken bytes: what ends beyond it never left.
    var mayHaveLeft: Int64 = 0

    var ending: CloseCause?
    var totals = APNsPoolSnapshot.Totals()
    private var hasNews = true
    private var lastReport: ContinuousClock.Instant?

    struct PartialAnswer {
        var retryAfter: Duration?
        var body: [UInt8] = []
    }

    /// Two rounds of output: the next is made while the kernel sends the last.
    private static let unsentBytes = 131_072

    private enum Key {
        static let socket: UInt64 = 0
        static let wakeUp: UInt64 = 1
    }

    /// How often the snapshot hears from a busy connection.
    private static let reportInterval: Duration = .milliseconds(250)

    static func over(
        _ link: SecureLink, id: ConnectionID, _ context: PoolContext, wakeUp: WakeUp, commands: Mailbox<ConnectionCommand>
    ) throws -> ConnectionLoop {
        let configuration = context.configuration
        let session = try HTTP2ClientSession(
            initialPeerStreamLimit: 1, maximumOpenStreams: max(1, configuration.maximumStreams), wantedHeaders: ["retry-after"],
            maximumResponseBody: APNsErrorBody.maximumBytes, memoryLimit: configuration.maximumSessionMemory)
        let poller = try Poller(capacity: 2)
        try poller.add(wakeUp.descriptor, key: Key.wakeUp, interest: .read)
        try poller.add(link.socket.descriptor, key: Key.socket, interest: .read)
        try link.socket.setUserTimeout(configuration.unacknowledgedTimeout)
        try link.socket.setUnsentLimit(Self.unsentBytes)
        return ConnectionLoop(id: id, context, link: link, session, poller, wakeUp: wakeUp, commands: commands)
    }

    private init(
        id: ConnectionID, _ context: PoolContext, link: SecureLink, _ session: HTTP2ClientSession, _ poller: Poller, wakeUp: WakeUp,
        commands: Mailbox<ConnectionCommand>
    ) {
        self.id = id
        self.context = context
        self.link = link
        self.wakeUp = wakeUp
        self.commands = commands
        now = context.clock.now()
        wall = context.clock.wall()
        let configuration = context.configuration
        state = ConnectionState(
            ConnectionState.Rules(
                maximumStreams: configuration.maximumStreams, pingAfter: configuration.pingAfter, pingTimeout: configuration.pingTimeout,
                settingsTimeout: configuration.handshakeTimeout, maximumAge: ConnectionState.Rules.age(upTo: configuration.maximumAge),
                maximumRequests: configuration.maximumRequestsPerConnection),
            now: now)
        token = context.signer.map(ProviderTokenSlot.init)
        headers = RequestHeaders(authority: context.authority)
        self.session = session
        self.poller = poller
    }

    /// The thread's work until the connection is over. Nothing it had taken is left without an answer or an owner.
    mutating func run() {
        // SETTINGS may have come with the handshake's last bytes, which no poller would tell.
        round(isReadable: true)
        while ending == nil {
            do {
                try watchForWriting()
                let events = try poller.wait(timeout: timeout)
                var isReadable = false
                for event in events {
                    if event.key == Key.wakeUp { wakeUp.clear() }
                    if event.key == Key.socket {
                        isReadable = event.isReadable
                        if event.isWritable { isWriteBlocked = false }
                    }
                }
                round(isReadable: isReadable)
            } catch {
                lose("\(error)")
            }
        }
        end()
    }

    /// One pass: what came in, what became due, what goes out.
    private mutating func round(isReadable: Bool) {
        now = context.clock.now()
        wall = context.clock.wall()
        do {
            for command in commands.takeAll() { obey(command) }
            if isReadable { try receive() }
            perform(state.tick(now: now))
            expireOverdue()
            // What was received may have taken a while, which is not the peer's.
            now = context.clock.now()
            repeat {
                fill()
                try send()
                // Sending may close streams (those that were reset), which frees places.
            } while drainEvents() && ending == nil
        } catch let error as TLSError where error.isAlert && token == nil {
            perform(state.certificateRefused("\(error)"))
        } catch let error as HTTP2Error where !error.isPeersFault {
            perform(state.libraryFailed("\(error)"))
        } catch {
            lose("\(error)")
        }
        handBack()
        tellFinished()
        reportIfDue()
    }

    private mutating func obey(_ command: ConnectionCommand) {
        switch command {
        case .drain: perform(state.drain())
        case .cutOff: perform(state.cutOff())
        }
    }

    mutating func lose(_ what: String) {
        perform(state.connectionLost(what))
    }

    mutating func perform(_ actions: [ConnectionState.Action]) {
        for action in actions { perform(action) }
    }

    mutating func perform(_ action: ConnectionState.Action?) {
        switch action {
        case nil: break
        case .becameUsable:
            context.parking.join(id)
            tell(.opened)
        case .becameProven: tell(.proven)
        case .sendPing: session.ping(UInt64(truncatingIfNeeded: wall))
        case .retire(let cause):
            context.parking.leave(id)
            if case .wedged = cause { token?.discard() }
            if cause.blamesAddress { context.dialer.addresses.failed(link.address, now: now) }
            tell(.retiring(cause))
        case .close(let cause):
            if cause.blamesAddress { context.dialer.addresses.failed(link.address, now: now) }
            ending = cause
        }
    }

    func tell(_ news: ConnectionReport.News) {
        context.report(ConnectionReport(id: id, address: link.address.description, news: news))
    }

    private mutating func watchForWriting() throws(SystemError) {
        guard isWriteBlocked != isWriteWatched else { return }
        try poller.modify(link.socket.descriptor, key: Key.socket, interest: isWriteBlocked ? [.read, .write] : .read)
        isWriteWatched = isWriteBlocked
    }

    private var timeout: Duration? {
        var next = state.nextTick
        if let nextDeadline { next = min(next ?? nextDeadline, nextDeadline) }
        if let nextExpiry {
            let due = now + .milliseconds(max(0, nextExpiry - wall))
            next = min(next ?? due, due)
        }
        if hasNews, let lastReport { next = min(next ?? lastReport + Self.reportInterval, lastReport + Self.reportInterval) }
        return next.map { max(.zero, $0 - now) }
    }

    mutating func noteNews() {
        hasNews = true
    }

    private mutating func reportIfDue() {
        guard hasNews else { return }
        if let lastReport, now < lastReport + Self.reportInterval { return }
        reportNow()
    }

    mutating func reportNow() {
        hasNews = false
        lastReport = now
        let connection = APNsPoolSnapshot.Connection(
            id: id, address: link.address.description, openStreams: state.inFlight, streamLimit: state.peerLimit,
            isAuthenticated: state.isProven, requests: state.requests, tokenMintedAt: token?.mintedAt)
        context.ledger.report(connection, &totals)
    }
}
