import PushModel

@testable import APNs
@testable import Dispatcher

/// APNs with random behaviour, and the checks of the requests that it sees.
extension SimulatedWorld {
    /// Something happens in one of the pools.
    mutating func stepPools() {
        let living = pools.indices.filter { !pools[$0].isGone }
        guard !living.isEmpty else { return }
        let pool = crowded ?? living[roll(living.count)]
        openConnection(pool)
        fill(pool)
        guard !pools[pool].connections.isEmpty else { return handBack(pool) }
        let place = roll(pools[pool].connections.count)
        let id = pools[pool].connections[place].id
        pools[pool].connections[place].state.received(now: pools[pool].instant(now))
        switch roll(isFair ? 8 : 16) {
        case 0: advertise(pool, place)
        case 1...7 where refusesAll && !isFair: for _ in 0..<(1 + roll(4)) { refuseSomething(pool, id) }
        case 1...7: for _ in 0..<(crowded == nil ? 1 + roll(4) : 1) { answerSomething(pool, id) }
        case 8: refuseSomething(pool, id)
        case 9: goAway(pool, id)
        case 11: resetSomething(pool, id)
        case 10: pools[pool].perform(pools[pool].connections[place].state.connectionLost("reset"), on: id, at: now)
        default: for _ in 0..<(1 + roll(3)) { answerSomething(pool, id) }
        }
        fill(pool)
        pools[pool].lookAfterQueue(at: now)
        handBack(pool)
    }

    private mutating func openConnection(_ pool: Int) {
        guard let id = pools[pool].dialling.first else { return }
        pools[pool].dialling.removeFirst()
        guard !pools[pool].isRetired, isFair || roll(4) > 0 else { return pools[pool].failed(id, at: now) }
        pools[pool].opened(id, at: now)
        // SETTINGS; sometimes a moment later.
        if isFair || roll(3) > 0 { advertise(pool, pools[pool].connections.count - 1) }
    }

    mutating func advertise(_ pool: Int, _ place: Int) {
        let limit = [1, 1, 3, 8, 20][roll(crowded == nil ? 5 : 2)]
        let id = pools[pool].connections[place].id
        pools[pool].connections[place].streamLimit = limit
        // A part of the window is kept for `now`; a closed one lets one request in, to find out whether it stays so.
        pools[pool].connections[place].window = isFair || crowded != nil ? 65_535 : [65_535, 65_535, 8_000, 0][roll(4)]
        pools[pool].perform(pools[pool].connections[place].state.settings(maximumStreams: limit), on: id, at: now)
    }

    // MARK: Requests leave

    private mutating func fill(_ pool: Int) {
        licenseReturned(pool)
        for id in pools[pool].connections.map(\.id) {
            while let place = pools[pool].connections.firstIndex(where: { $0.id == id }) {
                let connection = pools[pool].connections[place]
                var taken: [Share] = []
                pools[pool].queue.take(for: id, connection.room.now, others: connection.room.others, into: &taken)
                if taken.isEmpty, connection.state.freeStreams > 0, connection.inFlight.isEmpty {
                    let one = LaneQueue.Room(requests: 1, bytes: .max)
                    pools[pool].queue.take(for: id, one, others: one, into: &taken)
                }
                guard !taken.isEmpty else { break }
                for share in taken { for index in share.requests { submit(share, index, pool, place) } }
            }
        }
    }

    private mutating func submit(_ whole: Share, _ index: Int, _ pool: Int, _ place: Int) {
        var share = whole
        share.requests = index..<index + 1
        let request = share.batch.requests[index]
        if let reason = stopReason(share) { return pools[pool].settle(share, .stopped(reason)) }
        if apps[request.id].map(pools[pool].apps.contains) != true { breach("delivery \(request.id.low) went to another app's pool") }
        if pools[pool].isRetired { breach("delivery \(request.id.low) went to a pool whose credential was replaced") }
        checkRefusals(of: request, pool, pools[pool].connections[place].id)
        let connection = pools[pool].connections[place]
        if connection.hasGoneAway { breach("a request after GOAWAY") }
        if connection.inFlight.count >= connection.streamLimit { breach("more streams than APNs allows") }
        if !connection.knowsUs, !connection.inFlight.isEmpty { breach("a second stream before APNs knows us") }
        pools[pool].submitted(share, stream: connection.nextStream, on: place, at: now)
        pools[pool].connections[place].nextStream += 2
        pools[pool].connections[place].state.requestSubmitted()
        if connection.window > 0, roll(5) > 0 { leave(pool, place, connection.inFlight.count) }
    }

    private func stopReason(_ share: Share) -> StopReason? {
        if now >= share.batch.expiresAt { return .expired }
        return gate.stopReason(for: share.batch.requests[share.requests.lowerBound], of: share.batch)
    }

    // MARK: Answers come

    private mutating func answerSomething(_ pool: Int, _ id: ConnectionID) {
        guard let place = pools[pool].connections.firstIndex(where: { $0.id == id }), !pools[pool].connections[place].inFlight.isEmpty
        else { return }
        let which = roll(pools[pool].connections[place].inFlight.count)
        guard pools[pool].connections[place].inFlight[which].hasLeft else {
            return openWindow(pool, id, place, which)
        }
        // Some requests are never answered.
        guard isFair || roll(20) > 0 else { return }
        let entry = pools[pool].connections[place].inFlight.remove(at: which)
        let answer = reply(entry.request)
        pools[pool].settle(entry.share, answer)
        guard case .response(let status, let reason, _, _) = answer else { return }
        let meaning = APNsMeaning(status: status, reason: reason)
        if meaning.isAuthenticated, meaning.reaction == .keep { pools[pool].connections[place].knowsUs = true }
        if status == 200 {
            pools[pool].perform(pools[pool].connections[place].state.accepted(), on: id, at: now)
        } else {
            pools[pool].perform(pools[pool].connections[place].state.answered(status: status, reason: reason), on: id, at: now)
        }
        streamEnded(pool, id)
    }

    /// The window opens. The rest of the request asks again before it leaves.
    private mutating func openWindow(_ pool: Int, _ id: ConnectionID, _ place: Int, _ which: Int) {
        let share = pools[pool].connections[place].inFlight[which].share
        guard let reason = stopReason(share) else { return leave(pool, place, which) }
        pools[pool].connections[place].inFlight.remove(at: which)
        pools[pool].settle(share, .stopped(reason))
        streamEnded(pool, id)
    }

    /// RST_STREAM with a code that does not say whether APNs has processed the request.
    private mutating func resetSomething(_ pool: Int, _ id: ConnectionID) {
        guard let place = pools[pool].connections.firstIndex(where: { $0.id == id }),
            let entry = pools[pool].connections[place].inFlight.popLast()
        else { return }
        pools[pool].perform(pools[pool].connections[place].state.streamReset(isRefusal: false), on: id, at: now)
        if entry.hasLeft { pools[pool].settle(entry.share, .unknown(.streamReset)) } else { pools[pool].giveBack(entry, from: id) }
        streamEnded(pool, id)
    }

    private mutating func refuseSomething(_ pool: Int, _ id: ConnectionID) {
        guard let place = pools[pool].connections.firstIndex(where: { $0.id == id }),
            let entry = pools[pool].connections[place].inFlight.popLast()
        else { return }
        refusals[entry.request.id, default: []].append(Refusal(pool: pool, connection: id))
        timesRefused += 1
        pools[pool].perform(pools[pool].connections[place].state.streamReset(isRefusal: true), on: id, at: now)
        pools[pool].giveBack(entry, from: id)
        streamEnded(pool, id)
    }

    /// A refused request goes to other connections, to three at most, and then waits in a delayed queue.
    private mutating func checkRefusals(of request: APNsRequest, _ pool: Int, _ id: ConnectionID) {
        guard let refused = refusals[request.id], deliveries[request.id]?.isForked == false else { return }
        if refused.contains(Refusal(pool: pool, connection: id)) {
            breach("delivery \(request.id.low) went back to the connection that refused it")
        }
        if refused.count > 3 { breach("delivery \(request.id.low) was refused \(refused.count) times and never waited") }
    }

    /// Everything above some stream was not processed; the rest may still be answered.
    private mutating func goAway(_ pool: Int, _ id: ConnectionID) {
        guard let place = pools[pool].connections.firstIndex(where: { $0.id == id }) else { return }
        let reason = [nil, "Shutdown", "BadCertificateEnvironment", "Maximum active streams violated"][roll(4)]
        pools[pool].connections[place].hasGoneAway = true
        let kept = roll(pools[pool].connections[place].inFlight.count + 1)
        let refused = pools[pool].connections[place].inFlight.suffix(from: kept)
        pools[pool].connections[place].inFlight.removeLast(refused.count)
        pools[pool].perform(pools[pool].connections[place].state.goAway(reason: reason), on: id, at: now)
        for entry in refused.reversed() {
            pools[pool].giveBack(entry, from: id)
            streamEnded(pool, id)
        }
    }

    private mutating func streamEnded(_ pool: Int, _ id: ConnectionID) {
        guard let place = pools[pool].connections.firstIndex(where: { $0.id == id }) else { return }
        pools[pool].perform(pools[pool].connections[place].state.streamEnded(), on: id, at: now)
    }

    // MARK: Batches come back

    /// A request that came back unprocessed may leave again, also at once.
    private mutating func licenseReturned(_ pool: Int) {
        for id in pools[pool].returned {
            // APNs certainly did not process it, so sending it again doubles nothing.
            deliveries[id]?.permit("not processed")
        }
        pools[pool].returned.removeAll()
    }

    mutating func handBack(_ pool: Int) {
        licenseReturned(pool)
        for breach in pools[pool].breaches { self.breach("pool \(pool): \(breach)") }
        pools[pool].breaches.removeAll()
        let finished = pools[pool].finished
        pools[pool].finished.removeAll()
        for batch in finished {
            if Set(batch.answers.map(\.index)) != Set(batch.batch.requests.map(\.index))
                || batch.answers.count != batch.batch.requests.count
            {
                breach("a batch came back with \(batch.answers.count) answers to \(batch.batch.requests.count) requests")
            }
            for answer in batch.answers {
                guard let request = batch.batch.requests.first(where: { $0.index == answer.index }) else { continue }
                switch answer.result {
                case .unknown:
                    deliveries[request.id]?.isUnanswered = true
                    licenseUnanswered(request.id)
                case .response(500..., _, _, _): deliveries[request.id]?.hasFailed = true
                // The core gives it to a pool again, which does not know its history. A refused one waits.
                case .stopped, .notSent(.shuttingDown): refusals[request.id] = nil
                case .response, .notSent: break
                }
            }
            handle(.batchFinished(batch))
        }
    }

    /// Allows a second attempt of a delivery that may have arrived.
    private mutating func licenseUnanswered(_ id: PushID) {
        guard var account = deliveries[id] else { return }
        switch account.onUnknown {
        case .resend: account.permit("unknown")
        case .resendOnce:
            account.onUnknown = .drop
            let end = account.acceptedAt + core.rules.secondCopyAge
            if now < end {
                account.permit("unknown")
                account.secondCopyEnd = end
            }
        case .drop: break
        }
        deliveries[id] = account
    }

    mutating func tickPools() {
        for pool in pools.indices where !pools[pool].isGone {
            pools[pool].tick(at: now)
            handBack(pool)
        }
    }

    /// The last bytes of the request leave. At this point it must break no rule.
    private mutating func leave(_ pool: Int, _ place: Int, _ which: Int) {
        pools[pool].connections[place].inFlight[which].hasLeft = true
        let entry = pools[pool].connections[place].inFlight[which]
        let (request, lane) = (entry.request, entry.share.batch.lane)
        guard var account = deliveries[request.id] else { return breach("a request for a delivery of no job") }
        if !account.mayBeSent { breach("delivery \(request.id.low) was sent again without a reason") }
        if let end = account.secondCopyEnd, now >= end { breach("call \(request.id.low) rang late") }
        if now >= account.expiresAt { breach("delivery \(request.id.low) was sent after its expiry") }
        let app = apps[request.id]
        for entry in stream[..<streamRead] {
            switch entry {
            case .fence(Fixture.shop, account.installation, let epochs, _) where account.ownerEpoch < epochs && app == Fixture.shop:
                breach("delivery \(request.id.low) was sent although a fence was known")
            case .cancel(Fixture.shop, account.notification, _) where app == Fixture.shop:
                breach("delivery \(request.id.low) was sent although its notification was cancelled")
            case .hold(let id, let scope, let end, _)
            where end ?? .max > now && !isLifted(id) && scope.covers(app, lane, [account.notification, account.original]):
                breach("delivery \(request.id.low) was sent although it was held")
            default: break
            }
        }
        if core.book.refusal != nil { breach("delivery \(request.id.low) was sent although its outcome would be refused") }
        if !isControlConnected { breach("delivery \(request.id.low) was sent without a control stream") }
        account.leave()
        deliveries[request.id] = account
    }

    /// The answer of APNs, and what it allows.
    private mutating func reply(_ request: APNsRequest) -> APNsAnswer.Result {
        guard var account = deliveries[request.id] else { return .unknown(.timedOut) }
        defer { deliveries[request.id] = account }
        func say(_ status: Int, _ reason: String?, _ licence: String?) -> APNsAnswer.Result {
            if let licence { account.permit(licence) }
            return .response(status: status, reason: reason, timestamp: status == 410 ? now : nil, retryAfter: nil)
        }
        if crowded != nil { return say(200, nil, nil) }
        // Faults at the end cause retries for hours, which are most of the cost of a schedule.
        switch roll(isFair ? 80 : 14) {
        case 0: return say(429, "TooManyRequests", "throttled")
        case 1: return say(503, "ServiceUnavailable", "fault")
        case 2: return say(400, "TopicDisallowed", "misconfigured")
        case 3: return say(410, "Unregistered", nil)
        case 4:
            // One more attempt in the other environment, which has no further one.
            let licence = account.environment == nil ? nil : "other environment"
            account.environment = nil
            return say(400, "BadDeviceToken", licence)
        case 5: return say(500, nil, "fault")
        case 6: return say(403, "ExpiredProviderToken", "wedged")
        case 7: return say(403, "InvalidProviderToken", "misconfigured")
        default: return say(200, nil, nil)
        }
    }
}

extension HoldScope {
    fileprivate func covers(_ app: AppSlug?, _ lane: Lane, _ notifications: [PushID?]) -> Bool {
        (self.app == nil || self.app == app) && (self.lane == nil || self.lane == lane)
            && (self.notification == nil || notifications.contains(self.notification))
    }
}
