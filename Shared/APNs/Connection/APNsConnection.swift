import HTTP2
import OpenSSL
import PushModel
import SystemIO

/// One open connection to APNs, from the end of the TLS handshake on. It belongs to its pool's event loop, which calls
/// ``work(isReadable:isWritable:now:wall:_:takes:)`` after each event of the socket, a timer or the queue. It performs what ``ConnectionState``
/// decides.
///
/// A value, and never copied: the compiler then proves that no two accesses overlap, which for a class is checked while running, several
/// times for each answer.
struct APNsConnection: ~Copyable {
    let id: ConnectionID
    let context: PoolContext
    let link: SecureLink
    let session: HTTP2ClientSession
    let buffers: LoopBuffers
    private let poller: Poller
    private let key: SocketKey
    var state: ConnectionState
    var token: ProviderTokenSlot?
    var headers: RequestHeaders

    // Work in progress.
    /// By stream number.
    var inFlight: [Int32: InFlight] = [:]
    var shares = OpenShares()
    var taken: [Share] = []
    /// Parts of answers whose stream is still open, beyond their status.
    var partial: [Int32: PartialAnswer] = [:]
    /// Not later than the first deadline in flight.
    var nextDeadline: ContinuousClock.Instant?

    // The pool takes these after each round.
    var givenBack: [Share] = []
    var finishedBatches: [APNsFinishedBatch] = []
    var news: [News] = []
    var totals = APNsPoolSnapshot.Totals()

    // Time, read once per round, and again whenever requests are taken.
    var now: ContinuousClock.Instant
    var wall: Int64

    // Output.
    var isWriteBlocked = false
    private var isWriteWatched = false
    /// Position in the session's output up to which the kernel may have taken bytes: a request that ends beyond it never left.
    var mayHaveLeft: Int64 = 0

    var ending: CloseCause?

    /// Events for the pool.
    enum News {
        case opened
        case proven
        case retiring(RetireCause)
    }

    struct PartialAnswer {
        var retryAfter: Duration?
        var uniqueID: String?
        var channelID: String?
        var body: [UInt8] = []
    }

    /// Two rounds of output: the next is made while the kernel sends the last.
    private static let unsentBytes = 131_072

    /// - Parameter link: its socket is with the poller, under this key.
    static func over(
        _ link: SecureLink, _ context: PoolContext, key: SocketKey, poller: Poller, buffers: LoopBuffers
    ) throws -> APNsConnection {
        let configuration = context.configuration
        let session = try HTTP2ClientSession(
            wantedHeaders: context.wantedHeaders, maximumResponseBody: context.maximumResponseBody,
            memoryLimit: configuration.maximumSessionMemory)
        try poller.modify(link.socket.descriptor, key: key.raw, interest: .read)
        try link.socket.setUserTimeout(configuration.unacknowledgedTimeout)
        try link.socket.setUnsentLimit(Self.unsentBytes)
        return APNsConnection(link, session, context, key: key, poller: poller, buffers: buffers)
    }

    private init(
        _ link: SecureLink, _ session: HTTP2ClientSession, _ context: PoolContext, key: SocketKey, poller: Poller, buffers: LoopBuffers
    ) {
        let configuration = context.configuration
        id = key.connection
        self.context = context
        self.link = link
        self.session = session
        self.key = key
        self.poller = poller
        self.buffers = buffers
        now = context.clock.now()
        wall = context.clock.wall()
        state = ConnectionState(
            ConnectionState.Rules(
                maximumStreams: configuration.maximumStreams, pingAfter: configuration.pingAfter, pingTimeout: configuration.pingTimeout,
                settingsTimeout: configuration.handshakeTimeout, maximumAge: ConnectionState.Rules.age(upTo: configuration.maximumAge),
                maximumRequests: configuration.maximumRequestsPerConnection),
            now: now)
        token = context.signer.map(ProviderTokenSlot.init)
        headers = RequestHeaders(authority: context.endpoint.authority)
    }

    /// One round: reads, handles what became due, takes requests, writes. At the connection's end each request has an answer or goes back to the pool.
    /// - Parameters:
    ///   - queue: it takes from it what it may send at once.
    ///   - takes: false: it takes nothing.
    mutating func work(
        isReadable: Bool, isWritable: Bool, now: ContinuousClock.Instant, wall: Int64, _ queue: inout LaneQueue, takes: Bool
    ) {
        (self.now, self.wall) = (now, wall)
        if isWritable { isWriteBlocked = false }
        do {
            // Before anything is given up: what has arrived counts (docs/clocks.md, A process that stands still).
            if isReadable || due.map({ now >= $0 }) ?? false { try receive() }
            perform(state.tick(now: now))
            expireOverdue()
            do {
                try send(&queue, takes: takes)
            } catch let error as SystemError {
                // The peer's last words may have arrived.
                try receive()
                throw error
            }
            try watchForWriting()
        } catch let error as TLSError where error.isAlert && token == nil {
            perform(state.certificateRefused("\(error)"))
        } catch let error as HTTP2Error where !error.isPeersFault {
            perform(state.libraryFailed("\(error)"))
        } catch {
            lose("\(error)")
        }
        if ending != nil { end() }
    }

    mutating func readClock() { (now, wall) = (context.clock.now(), context.clock.wall()) }

    /// Finishes requests in flight, takes no more, and closes.
    mutating func drain() {
        perform(state.drain())
        if ending != nil { end() }
    }

    /// Closes now, even with requests in flight.
    mutating func cutOff() {
        do { try receive() } catch { lose("\(error)") }
        perform(state.cutOff())
        end()
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
        case .becameUsable: news.append(.opened)
        case .becameProven: news.append(.proven)
        case .sendPing: session.ping(UInt64(truncatingIfNeeded: wall))
        case .retire(let cause):
            if case .wedged = cause { token?.discard() }
            news.append(.retiring(cause))
        case .close(let cause): ending = cause
        }
    }

    private mutating func watchForWriting() throws(SystemError) {
        guard isWriteBlocked != isWriteWatched else { return }
        try poller.modify(link.socket.descriptor, key: key.raw, interest: isWriteBlocked ? [.read, .write] : .read)
        isWriteWatched = isWriteBlocked
    }

    /// When it has work to do without an event.
    var due: ContinuousClock.Instant? {
        guard let nextDeadline else { return state.nextTick }
        return min(state.nextTick ?? nextDeadline, nextDeadline)
    }

    /// For the snapshot.
    var shown: APNsPoolSnapshot.Connection {
        APNsPoolSnapshot.Connection(
            id: id, address: link.address.description, openStreams: state.inFlight, streamLimit: state.streamLimit,
            isAuthenticated: state.isProven, requests: state.requests, tokenMintedAt: token?.mintedAt)
    }
}

extension PoolContext {
    /// Kept from answers.
    fileprivate var wantedHeaders: [String] {
        switch (service, environment) {
        case (.channels, _): ["retry-after", "apns-channel-id"]
        case (.device, .sandbox), (.broadcast, .sandbox): ["retry-after", "apns-unique-id"]
        case (.device, .production), (.broadcast, .production): ["retry-after"]
        }
    }

    fileprivate var maximumResponseBody: Int {
        service == .channels ? APNsChannelContent.maximumBytes : APNsErrorBody.maximumBytes
    }
}
