import ChaosLedger
import PushModel

/// Judges each push by itself, in APNs' order.
extension Checker {
    mutating func judge(_ push: Push) {
        verdict.figures.pushes += 1
        noteConnection(push)
        series.notePush(push)
        let token = push.token.map { names.token($0) } ?? -1
        let send = push.marker.flatMap { sends.index(ofMarker: $0) } ?? -1
        let nextOfSend = send < 0 ? -1 : sends[send].firstDelivery
        let (place, isNew) = pushLog.note(push, token: token, send: send, nextOfSend: nextOfSend)
        let since = isNew && send >= 0 ? waitingSince(sends[send], until: push.time) : nil
        standstill.notePush(at: push.time, waitingSince: since)
        if let since { delays.note(sends[send], since: since, push, token) }
        delays.noteThrottling(push, token)
        if isNew {
            verdict.figures.deliveries += 1
            if send >= 0 { noteFirst(push, place, token, send) }
        }
        if send < 0, push.marker == nil, push.topic.hasSuffix(Self.activityTopic) { return judgeClearing(push, token) }
        guard send >= 0, sends[send].mayBeAccepted else {
            let why = send < 0 ? "no request has its marker" : "every request was refused"
            return verdict.find(.phantom, "\(describe(push)): \(why)")
        }
        judgeOrigin(push, token, sends[send])
        guard push.fate.mayHaveArrived else { return }
        judgeEnds(push, token, sends[send])
        judgeOrder(push, token, sends[send])
    }

    /// The moment from which it could be sent; nil if a hold may have kept it.
    private func waitingSince(_ send: SendBook.Send, until moment: Int64) -> Int64? {
        guard let acceptedAt = send.acceptedAt, let id = send.notification else { return nil }
        let since = max(acceptedAt, send.notBefore ?? 0)
        return stops.mayBeHeld(send, id, in: min(since, moment)...moment) ? nil : since
    }

    func describe(_ push: Push) -> String {
        let marker = push.marker.map { "marker \($0)" } ?? "no marker"
        return "push \(push.id) at \(at(push.time)) to \(push.token?.hint ?? "no token") (\(marker))"
    }

    private mutating func noteConnection(_ push: Push) {
        guard push.connection > lastConnection else { return }
        verdict.figures.connections += 1
        connectionsPerSecond[push.time / 1_000_000, default: 0] += push.connection - lastConnection
        lastConnection = push.connection
    }

    /// One notification has one delivery for each token, so a second one shows a second notification.
    private mutating func noteFirst(_ push: Push, _ place: Int32, _ token: Int32, _ send: Int32) {
        sends[send].firstDelivery = place
        guard token >= 0, sends[send].hasKey || sends[send].attempts == 1 else { return }
        guard !keyed.insert(UInt64(send) << 32 | UInt64(token)).inserted, !mayBeRepeated(sends[send]) else { return }
        let others = pushLog.deliveries(from: pushLog.deliveries[Int(place)].nextOfSend).filter { $0.token == token }
        verdict.find(
            .idempotency,
            """
            \(describe(push)): the same request \(sends[send].request) is delivered there as \
            \(others.map(\.id.description).joined(separator: ", ")) too
            """
        )
    }

    private mutating func judgeOrigin(_ push: Push, _ token: Int32, _ send: SendBook.Send) {
        let app = names.apps[send.app]
        let topic = app.bundleID + (send.activity == nil ? "" : Self.activityTopic)
        if push.topic != topic {
            verdict.find(.crossApp, "\(describe(push)): topic \(push.topic), asked for by \(app.slug) in request \(send.request)")
        } else if token >= 0, !names.tokenValues[Int(device(of: token))].hex.hasPrefix(app.tokenPrefix.lowercased()) {
            verdict.find(.crossApp, "\(describe(push)): not a device of \(app.slug), which asked for it in request \(send.request)")
        }
        // The push's moment is rounded down.
        let latest = push.time + 1000
        if latest < send.sentAt {
            verdict.find(.phantom, "\(describe(push)): before request \(send.request) of \(at(send.sentAt)) was sent")
        } else if let notBefore = send.notBefore, latest < notBefore, !faults.isOff(by: notBefore - latest, at: push.time) {
            verdict.find(.early, "\(describe(push)): not before \(at(notBefore)), says request \(send.request)")
        }
        if let first = pushLog.delivery(push.id), first.token != token || first.send != sends.index(ofMarker: send.marker) {
            verdict.find(.phantom, "\(describe(push)): the same delivery went to \(names.hint(first.token)) before, or for another request")
        }
    }

    /// Checks expiry, cancellation, holds, and the owner of the device.
    private mutating func judgeEnds(_ push: Push, _ token: Int32, _ send: SendBook.Send) {
        if let expiry = send.expiresAt, expiry < .max, !faults.isOff(by: expiry - push.time, at: push.time),
            isTooLate(push, after: expiry + run.grace)
        {
            verdict.find(
                .afterExpiry,
                "\(describe(push)): expired at \(at(expiry)), request \(send.request); \(faults.names(in: expiry...push.time))")
        }
        if let id = send.notification {
            for stop in stops.cancels[id] ?? [] {
                guard let end = stop.effectiveAt, isTooLate(push, after: end) else { continue }
                verdict.find(
                    .afterCancel,
                    "\(describe(push)): cancelled by request \(stop.request) until \(at(end)); \(faults.names(in: end...push.time))")
                break
            }
            for hold in stops.holds where stops.matches(hold, send, id) {
                guard let begin = hold.effectiveAt, push.time < hold.liftedAt, !faults.isOff(by: hold.liftedAt - push.time, at: push.time),
                    isTooLate(push, after: begin)
                else { continue }
                verdict.find(.afterHold, "\(describe(push)): held by request \(hold.request) from \(at(begin)) on")
                break
            }
        }
        if token >= 0 { judgeOwner(push, device(of: token), send) }
    }

    private mutating func judgeOwner(_ push: Push, _ token: Int32, _ send: SendBook.Send) {
        let wanted: [Int32?] =
            switch send.target {
            case .user, .activity: [send.user]
            case .users: send.users.map { $0 }
            case .installation, .installations, .tokens, .tags, .all: [nil]
            }
        var latest: (until: Int64, endedBy: Int64?)?
        for user in wanted {
            switch owners.mayOwn(user, token, at: push.time) {
            case .owner: return
            case .never: continue
            case .left(let until, let endedBy): if until > latest?.until ?? .min { latest = (until, endedBy) }
            }
        }
        let whom = wanted[0] != nil && send.target != .users ? "user \(names.name(send.user))" : send.target.rawValue
        guard let latest else {
            return verdict.find(.afterLogout, "\(describe(push)): for \(whom) (request \(send.request)), who never had that device")
        }
        guard isTooLate(push, after: latest.until) else { return }
        verdict.find(
            .afterLogout,
            """
            \(describe(push)): for \(whom) (request \(send.request)), whose time there was over at \(at(latest.until))\
            \(latest.endedBy.map { " by request \($0)" } ?? ""); \(faults.names(in: latest.until...push.time))
            """)
    }

    /// Whether a push came after a moment without a reason to be late, such as a frozen dispatcher or a slow link.
    private mutating func isTooLate(_ push: Push, after end: Int64) -> Bool {
        guard push.time > end else { return false }
        let isExcused = faults.all.contains { fault in
            fault.excuses.contains(.lateness) && fault.began <= end && push.time <= fault.recovered + run.grace
        }
        if isExcused { verdict.figures.excusedByFreeze += 1 }
        return !isExcused
    }
}
