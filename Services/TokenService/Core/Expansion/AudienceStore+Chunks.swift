import Postgres
package import PushModel

/// Chunks that are due, or that somebody made and did not publish.
extension AudienceStore {
    package struct ClaimedChunk: Sendable {
        package var id: ChunkID
        package var chunk: Chunk
        /// Positions that have their outcome.
        package var settled: Set<Int>
    }

    /// Takes over chunks of a lane that nobody has a lease on.
    package func claimChunks(_ count: Int, of lane: Lane, leaseSeconds: Double) throws -> [ClaimedChunk] {
        guard count > 0 else { return [] }
        return try session.execute(Self.claimChunks, [.text(lane.rawValue), .int64(Int64(count)), .double(leaseSeconds)]).map { row in
            let number = Int(try row.int32(1))
            return ClaimedChunk(
                id: ChunkID(notification: try row.id(0), number: number),
                chunk: Chunk(
                    number: number, locale: try row.text(2), dueAt: try row.timestampMilliseconds(3),
                    members: Chunk.members(of: try row.bytes(4))),
                settled: Set(try row.text(5).utf8.enumerated().filter { $1 == UInt8(ascii: "1") }.map(\.offset)))
        }
    }

    /// Finds anew whom the chunks are for: who is not meant any more, or is meant too late, gets that outcome instead.
    package func resolve(_ chunks: [ClaimedChunk], now: Int64) throws -> [PublishableChunk] {
        let notifications = Set(chunks.map(\.id.notification)).sorted()
        var variants: [PushID: [NotificationContent.Variant]] = [:]
        for row in try session.execute(Self.selectVariants, [.ids(notifications)]) {
            variants[try row.id(0), default: []].append(.init(locale: try row.text(1), payload: try row.bytes(2)))
        }
        var lifetimes: [PushID: Int64] = [:]
        var cancelled: Set<PushID> = []
        // Of audiences no owner is meant.
        var audiences: Set<PushID> = []
        for row in try session.execute(Self.terms, [.ids(notifications)]) {
            lifetimes[try row.id(0)] = try row.optionalInt64(1)
            if try row.bool(2) { cancelled.insert(try row.id(0)) }
            if try row.bool(3) { audiences.insert(try row.id(0)) }
        }
        var publishable: [PublishableChunk] = []
        for template in try JobTemplate.load(notifications, in: session) {
            let own = chunks.filter { $0.id.notification == template.notification }
            let meant = try meant(own.flatMap(\.chunk.members), by: template)
            let receipted = try receipted(own.flatMap(\.chunk.members), of: template)
            let retired = try retired(own.flatMap(\.chunk.members).filter { meant[$0] == nil })
            let names = DeliveryNames(template.notification)
            let gone: Stop = audiences.contains(template.notification) ? .leftAudience : .ownerChanged
            for claimed in own {
                var template = template
                if let lifetime = lifetimes[template.notification] {
                    template.end(claimed.chunk.dueAt + lifetime)
                }
                if let variant = variants[template.notification]?.first(where: { $0.locale == claimed.chunk.locale }) {
                    template.payload = variant.payload
                }
                // What is due after its expiry is taken at its expiry.
                let isOver = template.expiresAt <= max(now, claimed.chunk.dueAt)
                let stop: Stop? = cancelled.contains(template.notification) ? .cancelled : isOver ? .expired : nil
                publishable.append(
                    publishableChunk(
                        claimed, template, names: names, meant: meant, receipted: receipted, retired: retired, gone: gone, stop: stop,
                        now: now
                    ))
            }
        }
        return publishable
    }

    /// Why a member gets an outcome instead of a delivery.
    private enum Stop: String {
        case cancelled = "cancelled_before_publishing"
        case expired = "expired_before_publishing"
        case ownerChanged = "owner_changed"
        case leftAudience = "left_audience"
        case tokenRetired = "token_retired"

        var outcome: OutcomeClass {
            switch self {
            case .cancelled: .cancelled
            case .expired: .expired
            case .ownerChanged, .leftAudience, .tokenRetired: .fenced
            }
        }
    }

    private func publishableChunk(
        _ claimed: ClaimedChunk, _ template: JobTemplate, names: DeliveryNames, meant: [Int64: PushJob.Delivery], receipted: Set<Int64>,
        retired: Set<Int64>, gone: Stop, stop: Stop?, now: Int64
    ) -> PublishableChunk {
        var deliveries: [PushJob.Delivery] = []
        var stopped: [OutcomeEvent.Delivery] = []
        for (position, member) in claimed.chunk.members.enumerated() {
            // It was published before, by somebody who could not write that down.
            if claimed.settled.contains(position) || receipted.contains(member) { continue }
            let id = names.id(chunk: claimed.id.number, position: position)
            if var delivery = meant[member], stop == nil {
                delivery.id = id
                deliveries.append(delivery)
            } else {
                // Who holds the token now has nothing to do with it.
                let installation = meant[member]?.installation ?? PushID(high: 0, low: 0)
                let reason = stop ?? (retired.contains(member) ? .tokenRetired : gone)
                stopped.append(
                    OutcomeEvent.Delivery(
                        id: id, notification: template.notification, installation: installation, attempt: 1,
                        reason: reason.rawValue))
            }
        }
        var chunk = PublishableChunk(id: claimed.id, template: template, deliveries: EncodedDeliveries(deliveries))
        if !stopped.isEmpty {
            chunk.stopped = [.stopped(stopped, as: (stop ?? gone).outcome, of: template.app, at: now)]
        }
        return chunk
    }

    private func meant(_ members: [Int64], by template: JobTemplate) throws -> [Int64: PushJob.Delivery] {
        var meant: [Int64: PushJob.Delivery] = [:]
        let rows = try session.execute(
            Self.members, [.id(template.notification), .int64Array(members), .text(template.pushType.purpose.rawValue)])
        for row in rows {
            guard let token = DeviceToken(bytes: try row.bytes(1)), let environment = APNsEnvironment(rawValue: try row.text(2)) else {
                throw CorruptRow(table: "tokens")
            }
            meant[try row.int64(0)] = PushJob.Delivery(
                id: template.notification, token: token, environment: environment, installation: try row.id(3),
                ownerEpoch: try row.int64(4), environmentTrial: try row.bool(5) ? .allowed : .none)
        }
        return meant
    }

    /// Those whose tokens have been retired since they were found.
    private func retired(_ members: [Int64]) throws -> Set<Int64> {
        guard !members.isEmpty else { return [] }
        return Set(try session.execute(Self.retired, [.int64Array(members)]).map { row in try row.int64(0) })
    }

    /// Those that have their outcome already, by their receipts.
    private func receipted(_ members: [Int64], of template: JobTemplate) throws -> Set<Int64> {
        Set(try session.execute(Self.receipted, [.id(template.notification), .int64Array(members)]).map { row in try row.int64(0) })
    }
}
