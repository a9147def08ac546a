import Postgres
import PushModel
import TokenServiceKit
import TokenServiceRegistry
import TokenServiceSending

/// One transaction of a replay: it reads under locks, and writes the result of ``ReplayDecision``.
/// It works for every app: the letters are the operator's, and what hangs on a delivery is compared with its notification's app.
struct DeadLetterStore {
    struct Resolved: Sendable {
        var dispositions: [PushID: DeadLetterReplay.Disposition] = [:]
        /// Deliveries that had no outcome, are not sent and get one of our outcomes.
        var stopped: Set<PushID> = []
        /// The delivery that is published for a letter's: itself, or its substitute.
        var published: [PushID: PushID] = [:]
        /// The jobs and the outcomes to publish.
        var claimed: [JobPublisher.Reopened] = []

        /// The deliveries whose messages have to be confirmed for a letter's. One whose token was replaced has two: its own end, and the job
        /// of the one that is sent instead.
        func messages(of delivery: PushID) -> Set<PushID> {
            let sent = published[delivery] ?? delivery
            return stopped.contains(delivery) ? [sent, delivery] : [sent]
        }
    }

    /// A delivery that is published: the letter's, or its substitute to another token.
    struct Sent {
        var delivery: PushJob.Delivery
        let facts: ReplayFacts
        let decision: ReplayDecision

        var notification: PushID { facts.delivery.notification }
    }

    let session: PostgresSession

    /// - Parameter deliveries: In ascending order of id, each once.
    func reopen(_ deliveries: [DeadDelivery], extending seconds: Int64?) throws -> Resolved {
        try holdErasures(of: Set(deliveries.map(\.notification)))
        var resolved = Resolved()
        var stops: [ReplayDecision.Stop] = []
        var sent: [PushID: Sent] = [:]
        var unplaced: [PushID: [Int64: Sent]] = [:]
        var substituted: [(delivery: PushID, notification: PushID, token: Int64)] = []
        for facts in try read(deliveries) {
            let decision = ReplayDecision(facts, extending: seconds)
            resolved.dispositions[facts.delivery.id] = decision.disposition
            if let stop = decision.stop { stops.append(stop) }
            guard let target = decision.target, let delivery = facts.live, let token = facts.liveToken else { continue }
            var one = Sent(delivery: delivery, facts: facts, decision: decision)
            // Two deliveries of an installation may share one substitute, and that one may have a letter, too.
            switch target {
            case .itself:
                one.delivery.earlierOutcome = facts.delivery.earlier
                sent[delivery.id] = one
                resolved.published[facts.delivery.id] = delivery.id
            case .opened(let id):
                one.delivery.id = id
                sent[id] = sent[id] ?? one
                resolved.published[facts.delivery.id] = id
            case .new:
                unplaced[one.notification, default: [:]][token] = one
                substituted.append((facts.delivery.id, one.notification, token))
            }
        }
        var substitutes: [PushID: [Int64: PushID]] = [:]
        for (notification, tokens) in unplaced {
            let names = DeliveryNames(notification)
            // A place belongs to one token for ever, so substitutes get jobs of their own: one for each old job, whose payload they share.
            for (index, members) in Dictionary(grouping: tokens.values, by: \.facts.delivery.job).values.enumerated() {
                for (position, var one) in members.enumerated() {
                    one.delivery.id = names.id(job: one.facts.jobs + index, position: position)
                    sent[one.delivery.id] = one
                    if let token = one.facts.liveToken { substitutes[notification, default: [:]][token] = one.delivery.id }
                }
            }
        }
        for (delivery, notification, token) in substituted { resolved.published[delivery] = substitutes[notification]?[token] }
        let inOrder = sent.values.sorted { $0.delivery.id < $1.delivery.id }
        try write(inOrder, extending: seconds ?? 0)
        resolved.stopped = Set(stops.map(\.delivery.id))
        resolved.claimed = try messages(inOrder, stops)
        return resolved
    }

    /// A replay reads tokens and writes receipts, like an outcome.
    private func holdErasures(of notifications: Set<PushID>) throws {
        let apps: [Int64] = try session.execute(
            "SELECT DISTINCT n.app_id FROM unnest(\(notifications.sorted())::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id"
        ).column("app_id")
        try session.execute(ErasureBarrier.hold(Set(apps)))
    }

    /// Deliveries of one notification that have one end and one payload share messages.
    private struct Group: Hashable {
        let end: Int64?
        let locale: String
        /// 0 if the payload does not name it.
        let job: Int
    }

    private func messages(_ sent: [Sent], _ stops: [ReplayDecision.Stop]) throws -> [JobPublisher.Reopened] {
        let sent = Dictionary(grouping: sent, by: \.notification)
        let stops = Dictionary(grouping: stops, by: \.delivery.notification)
        let notifications = Set(sent.keys).union(stops.keys).sorted()
        var payloads: [PushID: [String: [UInt8]]] = [:]
        for row in try session.execute(JobStore.variants(of: notifications)) {
            let locale: String = try row["locale"]
            payloads[try row["notification"], default: [:]][locale] = try row["payload"]
        }
        return try JobTemplate.load(notifications, in: session).flatMap { template in
            let id = template.notification
            let groups = Dictionary(grouping: sent[id] ?? []) { one in
                let job = template.namesJob ? DeliveryNames.place(of: one.delivery.id).job : 0
                return Group(end: one.decision.end, locale: one.facts.locale, job: job)
            }
            var reopened = groups.map { group, sent in
                var template = template
                if let end = group.end { template.end(end) }
                if let payload = payloads[id]?[group.locale] { template.payload = payload }
                return JobPublisher.Reopened(
                    template: template, job: group.job, deliveries: sent.map(\.delivery),
                    earlierAttempts: sent.map(\.decision.attempts).max() ?? 0)
            }
            if let stops = stops[id] {
                reopened.append(JobPublisher.Reopened(template: template, deliveries: [], stopped: Self.events(stops, of: template.app)))
            }
            return reopened
        }
    }

    private static func events(_ stops: [ReplayDecision.Stop], of app: AppSlug) -> [OutcomeEvent] {
        let now = UnixTime.milliseconds()
        let groups = Dictionary(grouping: stops, by: \.outcome).sorted { $0.key.rawValue < $1.key.rawValue }
        return groups.flatMap { outcome, stops in
            stride(from: 0, to: stops.count, by: OutcomeEvent.maximumDeliveries).map { start in
                OutcomeEvent.stopped(
                    stops[start..<min(start + OutcomeEvent.maximumDeliveries, stops.count)].map(\.delivery), as: outcome, of: app, at: now)
            }
        }
    }
}
