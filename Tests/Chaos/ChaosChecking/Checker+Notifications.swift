import ChaosLedger
import PushModel

/// Compares the API's notifications with the clients' answers and with APNs' pushes.
extension Checker {
    mutating func judge(_ record: ReportedRecord) {
        switch record {
        case .notification(let notification): judge(notification)
        case .installation(let installation): judge(installation)
        case .retirement(let retirement): judge(retirement)
        }
    }

    private mutating func judge(_ reported: ReportedNotification) {
        // The checker finds a notification that no client got in an answer by the markers of its pushes.
        let index = sends.index(ofNotification: reported.id) ?? unclaimedSend(of: reported)
        if let index { sends[index].state = reported.state }
        for count in reported.counts { verdict.figures.outcomes[count.outcome.rawValue, default: 0] += count.count }
        judgeState(reported, index)
        let isWaiting = reported.deliveries.contains { $0.outcome == nil && pushLog.delivery($0.id)?.isAccepted != true }
        if isWaiting { waiting.append(describe(reported, index.map { sends[$0] })) }
        judgeCounts(reported)
        guard let index else { return }
        let send = sends[index]
        for delivery in reported.deliveries { judge(delivery, of: reported, send) }
        // Without a key, repetitions may have made several notifications with one marker.
        if send.hasKey || send.attempts == 1 { compare(reported, send) }
        if reported.state == .completed || reported.state == .noTargets { judgeTargets(reported, send) }
    }

    private func unclaimedSend(of reported: ReportedNotification) -> Int32? {
        for receipt in reported.deliveries {
            if let send = pushLog.delivery(receipt.id)?.send, send >= 0, sends[send].notification == nil { return send }
        }
        return nil
    }

    private func describe(_ reported: ReportedNotification, _ send: SendBook.Send?) -> String {
        "notification \(reported.id)" + (send.map { " (marker \($0.marker), request \($0.request) of \(at($0.sentAt)))" } ?? "")
    }

    private mutating func judgeState(_ reported: ReportedNotification, _ index: Int32?) {
        let send = index.map { sends[$0] }
        let name = describe(reported, send)
        let end = run.drainedAt ?? run.endedAt ?? .max
        switch reported.state {
        case .missing: if index != nil { verdict.find(.lost, "\(name): the API does not know it") }
        case .scheduled, .accepted, .expanding, .sending:
            if let due = send?.notBefore, due > end { return }
            if let send, stops.mayBeHeld(send, reported.id, at: end) { return }
            verdict.find(.stuck, "\(name): still \(reported.state.rawValue), \(reported.pending) of \(reported.total) deliveries pending")
        case .cancelled:
            if let send, !mayBeCancelled(send, reported.id) { verdict.find(.lost, "\(name): cancelled without a request") }
        case .expired:
            if let send, !mayBeExpired(send) { verdict.find(.lost, "\(name): expired before its time") }
        case .completed, .noTargets: break
        }
        if reported.state.isTerminal, reported.pending > 0 {
            verdict.find(.stuck, "\(name): \(reported.state.rawValue), and \(reported.pending) of \(reported.total) deliveries pending")
        }
    }

    private mutating func judgeCounts(_ reported: ReportedNotification) {
        let sum = reported.counts.reduce(0) { $0 + $1.count }
        if sum + reported.pending != reported.total {
            verdict.find(
                .counters, "notification \(reported.id): \(sum) with an outcome and \(reported.pending) without make \(reported.total)")
        }
        guard reported.hasAllReceipts, reported.isComplete else { return }
        var tally: [OutcomeClass: Int] = [:]
        for delivery in reported.deliveries { if let outcome = delivery.outcome { tally[outcome, default: 0] += 1 } }
        for outcome in OutcomeClass.allCases where tally[outcome] ?? 0 != reported.count(of: outcome) {
            verdict.find(
                .counters,
                "notification \(reported.id): \(reported.count(of: outcome)) \(outcome.rawValue) counted, \(tally[outcome] ?? 0) receipts")
        }
        if reported.deliveries.count != reported.total {
            verdict.find(
                .counters, "notification \(reported.id): \(reported.total) deliveries counted, \(reported.deliveries.count) receipts")
        }
    }

    // MARK: Receipts

    private mutating func judge(_ receipt: ReportedDelivery, of reported: ReportedNotification, _ send: SendBook.Send) {
        guard let outcome = receipt.outcome else { return }
        let delivery = pushLog.delivery(receipt.id)
        func name() -> String { "delivery \(receipt.id) of \(describe(reported, send))" }
        if outcome == .accepted {
            guard delivery?.isAccepted != true else { return }
            return verdict.find(.lost, "\(name()): reported accepted, and APNs accepted no such push")
        }
        if let delivery, delivery.isAccepted, !mayDiffer(delivery) {
            verdict.find(.counters, "\(name()): reported \(outcome.rawValue), and APNs had accepted it, without a fault that explains it")
        }
        if !isTrue(outcome, receipt, delivery, reported, send) {
            verdict.find(.lost, "\(name()): ended as \(outcome.rawValue), and nothing explains that")
        }
    }

    /// Whether the ledgers show a reason for an outcome without a push.
    private func isTrue(
        _ outcome: OutcomeClass, _ receipt: ReportedDelivery, _ delivery: PushLog.Delivery?, _ reported: ReportedNotification,
        _ send: SendBook.Send
    ) -> Bool {
        func isRefused(_ isReason: (Int) -> Bool) -> Bool {
            delivery.map { pushLog.attempts(of: $0) }?.contains { attempt in
                if case .refused(let status) = attempt.fate { isReason(status) } else { false }
            } ?? false
        }
        switch outcome {
        case .accepted: return true
        case .tokenGone: return isRefused { $0 == 410 }
        case .tokenRejected: return isRefused { $0 == 400 }
        case .throttled: return isRefused { $0 == 429 }
        case .rejected, .misconfigured: return isRefused { (400..<500).contains($0) }
        case .failed: return mayBeExpired(send) || isUsedUp(delivery) || delivery.map(mayDiffer) ?? isAPNsTroubled(send)
        case .unknown: return delivery.map(mayDiffer) ?? isAPNsTroubled(send)
        case .expired: return mayBeExpired(send)
        case .cancelled: return mayBeCancelled(send, reported.id)
        case .held: return stops.mayBeHeld(send, reported.id)
        case .fenced:
            guard let installation = receipt.installation else { return true }
            return owners.mayBeFenced(installation, since: send.sentAt) || mayBeRetired(at: installation, since: send.sentAt)
                || mayHaveLostToken(of: send, at: installation)
        }
    }

    /// Whether APNs rejected one of the installation's tokens, so that the token may have been retired just before its delivery was
    /// published again. The service applies a rejection a while later, and not before faults are over.
    private func mayBeRetired(at installation: PushID, since moment: Int64) -> Bool {
        let earliest = faults.troubled(until: moment) - run.lateness
        return owners.calls(on: installation).flatMap(\.tokens).contains { token in
            pushLog.refusals[token]?.contains { $0.time >= earliest } ?? false
        }
    }

    /// By a client, or because a newer state of its Live Activity was accepted.
    private func mayBeCancelled(_ send: SendBook.Send, _ notification: PushID) -> Bool {
        // A copy for a device that got another update token takes the place of one that is tried again.
        stops.mayBeCancelled(notification) || mayBeReplaced(send) || mayBeRepeated(send)
    }

    /// Given up after at least the smallest number of attempts.
    private func isUsedUp(_ delivery: PushLog.Delivery?) -> Bool {
        delivery.map { pushLog.attempts(of: $0).count >= Self.fewestAttempts } ?? false
    }

    private static var fewestAttempts: Int { 5 }

    /// `Int64.max` stands for an unknown moment.
    private func mayBeExpired(_ send: SendBook.Send) -> Bool {
        guard let expiry = send.expiresAt else { return false }
        let end = run.endedAt ?? .max
        return expiry == .max || expiry <= end
            || faults.all.contains { $0.step > 0 && send.sentAt <= $0.ended + run.recovery && expiry <= $0.ended + run.recovery + $0.step }
    }

    /// Whether APNs or the link to it had a fault since the request of a notification. Then an attempt may have left no trace.
    private func isAPNsTroubled(_ send: SendBook.Send) -> Bool {
        faults.all.contains { $0.recovered + run.recovery >= send.sentAt && !$0.excuses.isDisjoint(with: [.apns, .connection]) }
    }

    /// Compares APNs' accepted pushes with the counters.
    private mutating func compare(_ reported: ReportedNotification, _ send: SendBook.Send) {
        let seen = pushLog.deliveries(from: send.firstDelivery)
        guard reported.isComplete, !mayBeRepeated(send) else { return }
        if reported.hasAllReceipts {
            let known = Set(reported.deliveries.map(\.id))
            // A second delivery to one token is a second notification, which the checker has found already.
            let tokens = Set(seen.filter { known.contains($0.id) }.map(\.token))
            for delivery in seen where !known.contains(delivery.id) && !tokens.contains(delivery.token) {
                verdict.find(.counters, "\(describe(reported, send)): APNs got delivery \(delivery.id), of which there is no receipt")
            }
            return
        }
        let otherwise = reported.deliveries.count { $0.outcome != .accepted && pushLog.delivery($0.id)?.isAccepted == true }
        let expected = Set(seen.filter(\.isAccepted).map(\.token)).count - otherwise
        let counted = reported.count(of: .accepted)
        guard counted != expected else { return }
        verdict.find(
            counted > expected ? .lost : .counters,
            "\(describe(reported, send)): \(counted) accepted are counted, and APNs accepted \(expected)")
    }

    // MARK: Who should have got it

    private mutating func judgeTargets(_ reported: ReportedNotification, _ send: SendBook.Send) {
        let users: [Int32]
        switch send.target {
        case .user: users = [send.user]
        case .users: users = send.users
        case .installation: users = send.installation.map { Array(Set(owners.calls(on: $0).compactMap(\.owner))) } ?? []
        case .installations, .tokens, .tags, .all, .activity: return
        }
        let seen = pushLog.deliveries(from: send.firstDelivery)
        let end = run.drainedAt ?? run.endedAt ?? .max
        // When the first of its pushes was under way, its deliveries had been made.
        let madeBy = send.target == .users ? end : seen.compactMap { pushLog.attempts(of: $0).last?.time }.min() ?? end
        for user in users {
            for (token, installation) in owners.certainTokens(of: user, from: send.sentAt, to: madeBy) {
                if send.target == .installation, installation != send.installation { continue }
                // APNs may have had the token retired in between.
                if devices[token] != nil || pushLog.refusals[token] != nil { continue }
                if seen.contains(where: { device(of: $0.token) == token })
                    || reported.deliveries.contains(where: { $0.installation == installation })
                {
                    continue
                }
                verdict.find(
                    .lost,
                    """
                    \(describe(reported, send)): \(reported.state.rawValue) without \(names.hint(token)), which certainly was user \
                    \(names.name(user))'s
                    """
                )
            }
        }
    }

    mutating func judgeUnreported() {
        for send in sends.sends {
            verdict.figures.attempted += 1
            if send.activity?.event == .start { verdict.figures.activities += 1 }
            if let id = send.notification {
                verdict.figures.acknowledged += 1
                if send.state == nil {
                    verdict.find(.lost, "notification \(id) (marker \(send.marker), request \(send.request)): the API does not know it")
                }
            } else if send.firstDelivery >= 0 {
                verdict.figures.recovered += 1
            }
        }
    }
}
