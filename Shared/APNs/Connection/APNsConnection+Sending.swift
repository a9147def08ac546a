import HTTP2
import OpenSSL
import PushModel

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
