import HTTP2
import OpenSSL
import PushModel
import SystemIO

/// One open connection to APNs, from the end of the TLS handshake on. It belongs to its pool's event loop, which calls
/// ``work(isReadable:isWritable:now:wall:_:takes:)`` after each event of the socket, a timer or the queue. It performs what
/// ``ConnectionState`` decides.
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
    /// The requests in flight, by stream number.
    var inFlight: [Int32: InFlight] = [:]
    var shares = OpenShares()
    var taken: [Share] = []
    /// Parts of answers whose stream is still open, beyond their status.
    var partial: [Int32: PartialAnswer] = [:]
    /// A moment not later than the first deadline in flight.
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

    /// - Parameter link: The link whose socket is with the poller, under this key.
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

    /// One round: reads, handles what became due, takes requests, writes. At the connection's end each request has an answer or goes back
    /// to the pool.
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

    /// What the snapshot shows.
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

extension APNsConnection {
    /// The connection is over: every request in flight gets the answer that is certain, or goes back to the pool.
    mutating func end() {
        let cause = ending ?? .drained
        if cause == .drained || cause == .cutOff { sayGoodbye() }
        link.close { mayHaveLeft = session.outputPosition }
        // Only now is it certain which requests have left.
        settleInFlight(cause)
        if cause.blamesAddress { totals.connectionsLost += 1 }
    }

    /// Completes no request.
    private mutating func sayGoodbye() {
        do {
            for stream in inFlight.keys where session.progress(of: stream).isCertainlyNotProcessed { session.reset(stream) }
            try session.goAway()
            var frames: [UInt8] = []
            _ = try session.gatherOutput(into: &frames)
            try link.write(frames)
        } catch { /* The peer needs no reasons from a connection that fails while it is closed. */  }
    }

    private mutating func settleInFlight(_ cause: CloseCause) {
        for (stream, entry) in inFlight.sorted(by: { $0.key < $1.key }) {
            var hasLeft = false
            if case .complete(let position) = session.progress(of: stream) { hasLeft = position <= mayHaveLeft }
            if !settle(entry, partial[stream], mayBeProcessed: hasLeft, cause == .cutOff ? .shutdown : .connectionLost) {
                giveBack(entry.share, entry.request..<entry.request + 1, isRefused: true)
            }
        }
        inFlight = [:]
    }
}

extension APNsConnection {
    /// What may be taken now: nothing while the kernel takes no more.
    private var room: (now: LaneQueue.Room, others: LaneQueue.Room) {
        guard !isWriteBlocked else { return (LaneQueue.Room(), LaneQueue.Room()) }
        return state.room(window: session.remoteWindow, pending: session.pendingBytes)
    }

    /// It could take a request of `now`.
    var isFree: Bool {
        let room = room.now
        return room.requests > 0 && (room.bytes > 0 || state.inFlight == 0)
    }

    /// The window or the socket takes nothing more of a backlog: it is full, or it stalls.
    var isFull: Bool { room.others.isFull }

    /// Takes the requests of one turn, and hands them to HTTP/2 (docs/path.md, step 7).
    /// - Returns: whether there were any.
    mutating func fill(_ queue: inout LaneQueue) -> Bool {
        guard !queue.isEmpty, session.acceptsRequests else { return false }
        let (room, others) = room
        guard room.requests > 0 else { return false }
        taken.removeAll(keepingCapacity: true)
        queue.take(for: id, room, others: others, into: &taken)
        if taken.isEmpty, state.inFlight == 0 {
            // APNs' window is smaller than the payload, or closed. One request finds out, by its deadline at the latest.
            let one = LaneQueue.Room(requests: 1, bytes: .max)
            queue.take(for: id, one, others: one, into: &taken)
        }
        guard !taken.isEmpty else { return false }
        readClock()
        let authorization = authorization()
        for share in taken { submit(share, authorization) }
        return true
    }

    private mutating func submit(_ share: Share, _ authorization: [UInt8]?) {
        let batch = share.batch
        let place = shares.open(share)
        let deadline = now + context.configuration.requestTimeout
        nextDeadline = nextDeadline ?? deadline
        guard let authorization else {
            giveBack(place, share.requests, isRefused: false)
            return
        }
        headers.begin(batch, authorization: authorization)
        for index in share.requests {
            let request = batch.requests[index]
            // Promises 3 and 6 (docs/promises.md) hold because the gate is asked here and not earlier: the request leaves in this turn, or
            // is asked for again (`stopPending`).
            if let stop = stopReason(batch, request) {
                totals.stopped += 1
                answer(place, request.index, sentAt: nil, .stopped(stop))
                continue
            }
            headers.set(request)
            do throws(HTTP2Error) {
                let stream = try session.submit(headers.block, body: batch.payload)
                inFlight[stream] = InFlight(share: place, request: index, index: request.index, sentAt: wall, deadline: deadline)
                state.requestSubmitted()
                totals.submitted += 1
                headers.submitted(batch)
            } catch {
                perform(state.libraryRefused("\(error)"))
                giveBack(place, index..<share.requests.upperBound, isRefused: true)
                return
            }
        }
    }

    func stopReason(_ batch: APNsBatch, _ request: APNsRequest) -> StopReason? {
        wall >= batch.expiresAt ? .expired : context.gate(batch, request)
    }

    /// Empty with a certificate. Nil: the key does not sign, which no other connection will change.
    private mutating func authorization() -> [UInt8]? {
        guard token != nil else { return [] }
        do {
            return try token?.authorization(now: now, wall: wall)
        } catch {
            perform(state.cannotSign("\(error)"))
            return nil
        }
    }

    /// Takes and sends, one turn after another. Each asks the gate, gathers frames into whole TLS records, and gives them to the kernel. If
    /// the kernel takes no more, the rest of that turn waits encrypted and leaves later in any case. Everything else stays in the queue, or
    /// in HTTP/2, where it can still be cancelled.
    /// - Parameter takes: false: it sends only what it has.
    mutating func send(_ queue: inout LaneQueue, takes: Bool) throws {
        if ending == nil, !isWriteBlocked { try flush() }
        if ending == nil, !isWriteBlocked { stopPending() }
        while ending == nil, !isWriteBlocked {
            // Streams that were reset before they had left free their places at once.
            drainEvents()
            let hasTaken = takes && fill(&queue)
            buffers.plaintext.removeAll(keepingCapacity: true)
            _ = try session.gatherOutput(into: &buffers.plaintext)
            guard hasTaken || !buffers.plaintext.isEmpty else { break }
            try link.write(buffers.plaintext)
            try flush()
        }
        drainEvents()
        if let error = session.connectionError { lose("protocol error by the peer: \(error)") }
    }

    private mutating func flush() throws {
        isWriteBlocked = try !link.flush { mayHaveLeft = session.outputPosition }
    }

    // MARK: Answers and what is given back

    mutating func answer(
        _ place: Int, _ index: Int, sentAt: Int64?, _ result: APNsAnswer.Result, _ uniqueID: String? = nil,
        _ content: APNsChannelContent? = nil
    ) {
        let answer = APNsAnswer(index: index, sentAt: sentAt, result: result, uniqueID: uniqueID, content: content)
        if let finished = shares.answer(place, answer) {
            finishedBatches.append(finished)
        }
    }

    /// Certainly not processed: another connection may have it.
    /// - Parameter isRefused: it had been handed to HTTP/2, and this connection does not try it again.
    mutating func giveBack(_ place: Int, _ requests: Range<Int>, isRefused: Bool) {
        guard let (share, finished) = shares.giveBack(place, requests) else { return }
        var returned = share
        if isRefused { returned.refusedBy.append(id) }
        givenBack.append(returned)
        if let finished { finishedBatches.append(finished) }
    }
}
