import HTTP2
import PushModel
import SystemIO

extension APNsConnection {
    mutating func receive() throws {
        buffers.plaintext.removeAll(keepingCapacity: true)
        // Answers that came before an error count.
        let result = Result { try link.read(into: &buffers.plaintext) }
        if !buffers.plaintext.isEmpty {
            // A span of a class's property would end with the access to it.
            let bytes = buffers.plaintext
            defer {
                state.received(now: now, window: session.remoteWindow)
                drainEvents()
            }
            try session.receive(bytes.span)
        }
        if case .closed(let how) = try result.get() { lose(how) }
    }

    mutating func drainEvents() {
        session.forEachEvent { note in
            switch note {
            case .answered(let stream, let status): answered(stream, status)
            case .event(let event): handle(event)
            }
        }
    }

    /// Takes the answer that by far the most requests get: a status and nothing else.
    private mutating func answered(_ stream: Int32, _ status: Int) {
        if var entry = inFlight.removeValue(forKey: stream) {
            entry.status = status
            if status == 200 { accepted(entry, nil) } else { answered(entry, nil) }
        }
        perform(state.streamEnded())
    }

    private mutating func accepted(_ entry: InFlight, _ uniqueID: String?) {
        totals.countAnswer(after: wall - entry.sentAt)
        answer(
            entry.share, entry.index, sentAt: entry.sentAt, .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil), uniqueID)
        perform(state.accepted())
    }

    private mutating func handle(_ event: HTTP2ClientEvent) {
        switch event {
        case .headers(let stream, let status, let fields, _):
            guard inFlight[stream] != nil else { return }
            inFlight[stream]?.status = status
            let uniqueID = fields["apns-unique-id"].flatMap { OutsideText.harmless($0) }
            guard status != 200 || uniqueID != nil || context.service == .channels else { return }
            partial[stream, default: PartialAnswer()].uniqueID = uniqueID
            partial[stream]?.channelID = fields["apns-channel-id"]
            partial[stream]?.retryAfter = fields["retry-after"].flatMap { RetryAfter.duration($0, now: wall) }
        case .data(let stream, let bytes):
            // The session bounds it; only bodies of open answers are kept.
            partial[stream]?.body.append(contentsOf: bytes)
        case .streamClosed(let stream, let code, let written):
            closed(stream, code, written)
            perform(state.streamEnded())
        case .settings(let limit):
            perform(state.settings(maximumStreams: limit))
        case .goAway(_, let code, let debug):
            // The ends of the refused streams follow as events of their own.
            let reason = APNsErrorBody(debug).reason ?? (code == .noError ? nil : code.description)
            totals.countGoAway(reason: reason)
            perform(state.goAway(reason: reason))
            #if PUSH_DELIBERATE_FAULTS
                if DeliberateFault.chosen == .resendAfterGoAway { for stream in inFlight.keys { closed(stream, .refusedStream, .nothing) } }
            #endif
        case .pingAck:
            state.pongReceived()
        }
    }

    private mutating func closed(_ stream: Int32, _ code: HTTP2ErrorCode, _ written: RequestProgress) {
        let partial = partial.isEmpty ? nil : partial.removeValue(forKey: stream)
        // Requests that timed out have had their answer.
        guard let entry = inFlight.removeValue(forKey: stream) else { return }
        if entry.status == 200, context.service != .channels {
            accepted(entry, partial?.uniqueID)
        } else if entry.status != 0 {
            answered(entry, partial)
        } else {
            perform(state.streamReset(isRefusal: code == .refusedStream))
            if code == .refusedStream { totals.refused += 1 }
            if code == .refusedStream || written.isCertainlyNotProcessed {
                giveBack(entry.share, entry.request..<entry.request + 1, isRefused: true)
            } else {
                totals.unknown += 1
                answer(entry.share, entry.index, sentAt: entry.sentAt, .unknown(.streamReset))
            }
        }
    }

    private mutating func answered(_ entry: InFlight, _ partial: PartialAnswer?) {
        let body = APNsErrorBody(partial?.body ?? [])
        totals.countAnswer(after: wall - entry.sentAt)
        let result = APNsAnswer.Result.response(
            status: entry.status, reason: body.reason, timestamp: body.timestamp, retryAfter: partial?.retryAfter)
        let content =
            context.service == .channels ? APNsChannelContent(channelID: partial?.channelID, body: partial?.body ?? []) : nil
        answer(entry.share, entry.index, sentAt: entry.sentAt, result, partial?.uniqueID, content)
        perform(state.answered(status: entry.status, reason: body.reason))
    }

    /// Gives up requests that have waited too long.
    mutating func expireOverdue() {
        guard let due = nextDeadline, now >= due else { return }
        for (stream, entry) in inFlight where now >= entry.deadline {
            let progress = session.progress(of: stream)
            let partial = giveUp(stream)
            totals.timedOut += 1
            if !settle(entry, partial, mayBeProcessed: !progress.isCertainlyNotProcessed, .timedOut) {
                let isExpired = shares.batch(entry.share).map { wall >= $0.expiresAt } ?? false
                answer(entry.share, entry.index, sentAt: nil, isExpired ? .stopped(.expired) : .notSent(.deadline))
            }
            perform(state.timedOut())
        }
        nextDeadline = inFlight.values.lazy.map(\.deadline).min()
    }

    /// Resets the stream, because APNs would count it as open for ever: a stream ends by END_STREAM or RST_STREAM only (RFC 9113 section
    /// 5.1).
    @discardableResult
    private mutating func giveUp(_ stream: Int32) -> PartialAnswer? {
        inFlight[stream] = nil
        session.reset(stream, .cancel)
        return partial.removeValue(forKey: stream)
    }

    /// Asks expiry and the gate again for requests of which a part waits for the window or the socket, before the rest may leave.
    mutating func stopPending() {
        guard session.pendingBytes > 0 else { return }
        readClock()
        for (stream, entry) in inFlight where entry.status == 0 {
            guard session.progress(of: stream).isCertainlyNotProcessed, let batch = shares.batch(entry.share),
                let reason = stopReason(batch, batch.requests[entry.request])
            else { continue }
            giveUp(stream)
            totals.stopped += 1
            answer(entry.share, entry.index, sentAt: nil, .stopped(reason))
        }
    }

    /// Answers a request that APNs will not end.
    /// - Parameter partial: a status is an answer, with as much of its text as there is.
    /// - Returns: false if it was certainly not processed, and has no answer.
    mutating func settle(_ entry: InFlight, _ partial: PartialAnswer?, mayBeProcessed: Bool, _ reason: UnknownReason) -> Bool {
        if entry.status != 0 {
            answered(entry, partial)
            return true
        }
        guard mayBeProcessed else { return false }
        totals.unknown += 1
        answer(entry.share, entry.index, sentAt: entry.sentAt, .unknown(reason))
        return true
    }
}

extension RequestProgress {
    /// APNs has not got a whole request, so it cannot have acted on it (docs/apns.md, What may be sent again).
    var isCertainlyNotProcessed: Bool {
        if case .complete = self { false } else { true }
    }
}

/// One request that has been handed to HTTP/2 and has no answer yet.
struct InFlight {
    /// Place in the connection's open shares.
    let share: Int
    /// Place in the batch's requests.
    let request: Int
    /// The caller's number of the request; the answer has it too.
    let index: Int
    /// UNIX milliseconds.
    let sentAt: Int64
    let deadline: ContinuousClock.Instant
    /// 0 until the answer's headers are here.
    var status = 0
}

/// The shares a connection is working on, in places that are used again. Collects each share's answers until none is outstanding.
struct OpenShares {
    private struct Entry {
        /// nil: the place is free.
        var share: Share?
        var answers: [APNsAnswer] = []
        /// Requests of it that are neither answered nor given back.
        var outstanding = 0
    }

    private var entries: [Entry] = []
    private var free: [Int] = []

    var isEmpty: Bool { free.count == entries.count }

    mutating func open(_ share: Share) -> Int {
        let place: Int
        if let known = free.popLast() {
            place = known
        } else {
            place = entries.count
            entries.append(Entry())
        }
        entries[place].outstanding = share.requests.count
        entries[place].answers.reserveCapacity(share.requests.count)
        entries[place].share = share
        return place
    }

    /// - Returns: the batch, if this was the last answer it waited for.
    mutating func answer(_ place: Int, _ answer: APNsAnswer) -> APNsFinishedBatch? {
        entries[place].answers.append(answer)
        return settleIfDone(place, 1)
    }

    /// Takes some requests out of the share: they get their answers elsewhere.
    mutating func giveBack(_ place: Int, _ requests: Range<Int>) -> (share: Share, finished: APNsFinishedBatch?)? {
        guard var share = entries[place].share else { return nil }
        share.requests = requests
        return (share, settleIfDone(place, requests.count))
    }

    func batch(_ place: Int) -> APNsBatch? { entries[place].share?.batch }

    private mutating func settleIfDone(_ place: Int, _ count: Int) -> APNsFinishedBatch? {
        entries[place].outstanding -= count
        guard entries[place].outstanding == 0, let share = entries[place].share.take() else { return nil }
        free.append(place)
        return entries[place].answers.isEmpty ? nil : share.ledger.settle(&entries[place].answers)
    }
}
