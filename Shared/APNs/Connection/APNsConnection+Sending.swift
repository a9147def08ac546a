import HTTP2
import OpenSSL
import PushModel

extension APNsConnection {
    /// Takes as many requests as there are free streams, and hands them to HTTP/2 (docs/path.md, step 7).
    mutating func fill(_ queue: inout LaneQueue) {
        while ending == nil {
            let free = state.freeStreams
            guard free > 0, !queue.isEmpty else { return }
            taken.removeAll(keepingCapacity: true)
            queue.take(for: id, maximum: free, reservedForNow: reserved(of: free), into: &taken)
            guard !taken.isEmpty else { return }
            let authorization = authorization()
            var count = 0
            for share in taken {
                count += share.requests.count
                submit(share, authorization)
            }
            if count < free { return }
        }
    }

    /// While the kernel takes no more, only `now` is taken: it would wait behind all other requests.
    private func reserved(of free: Int) -> Int {
        isWriteBlocked ? free : state.reservedForNow
    }

    private mutating func submit(_ share: Share, _ authorization: [UInt8]?) {
        let batch = share.batch
        let place = shares.open(share)
        let deadline = RequestPatience(timeout: context.configuration.requestTimeout).deadline(of: batch, sentAt: now)
        guard let authorization else {
            giveBack(place, share.requests, isRefused: false)
            return
        }
        headers.begin(batch, authorization: authorization)
        for index in share.requests {
            let request = batch.requests[index]
            // The last moment: promises 3 and 6 (docs/promises.md) hold because the gate is asked here and not earlier.
            if let stop = wall >= batch.expiresAt ? .expired : context.gate(batch, request) {
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
                let isLibraryError = if case .library = error.code { true } else { false }
                if isLibraryError { perform(state.libraryRefused("\(error)")) }
                giveBack(place, index..<share.requests.upperBound, isRefused: isLibraryError)
                return
            }
        }
        nextDeadline = nextDeadline.map { min($0, deadline) } ?? deadline
        nextExpiry = nextExpiry.map { min($0, batch.expiresAt) } ?? batch.expiresAt
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

    /// Gathers frames into whole TLS records, and gives them to the kernel as far as it takes them.
    mutating func send() throws {
        while ending == nil {
            let isFlushed = try link.flush { mayHaveLeft = session.outputPosition }
            isWriteBlocked = !isFlushed
            // The rest stays in HTTP/2, where it can still be cancelled, and does not pile up as ciphertext.
            guard isFlushed else { return }
            buffers.plaintext.removeAll(keepingCapacity: true)
            _ = try session.gatherOutput(into: &buffers.plaintext)
            if buffers.plaintext.isEmpty { break }
            try link.write(buffers.plaintext)
        }
        if let error = session.connectionError { lose("protocol error by the peer: \(error)") }
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
