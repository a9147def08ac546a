package import Configuration
package import Observability
import PushModel

/// One step of a plan, in the transaction that has locked it: an answer, a timeout, or the next command.
struct ChannelProgress {
    let store: ChannelStore
    var plan: ChannelPlan
    let settings: ChannelSettings
    /// UNIX milliseconds.
    let now: Int64

    private var retryAt: Int64 { now + settings.retryDelay.milliseconds }

    // MARK: Answers

    /// Idempotent: an answer to a command that is over changes nothing, unless it names a channel that no row has.
    mutating func apply(_ answer: ChannelAnswer) throws {
        let command = plan.command?.id == answer.command ? plan.command : nil
        if command != nil { plan.command = nil }
        let reply = ChannelReply(answer)
        if answer.operation == .create {
            try endCreation(answer.command, reply, endsAt: command?.endsAt)
        } else if let command {
            try end(command, reply)
        }
        plan.dueAt = now
    }

    /// Gives up a command whose answer is overdue.
    mutating func timeOut() throws {
        guard let command = plan.command, command.endsAt <= now else { return }
        plan.command = nil
        if command.operation == .create {
            try endCreation(command.id, .lost, endsAt: command.endsAt)
        } else {
            try end(command, .lost)
        }
    }

    private mutating func end(_ command: ChannelPlan.UnderWay, _ reply: ChannelReply) throws {
        if command.operation == .list {
            try endList(reply)
        } else if let channel = try command.channel.flatMap({ try store.find($0) }) {
            try end(channel, reply)
        }
    }

    /// - Parameter endsAt: The moment until which a dispatcher may still work on it; nil: the command was given up before.
    private mutating func endCreation(_ command: PushID, _ reply: ChannelReply, endsAt: Int64?) throws {
        guard let channel = try store.uncertain(), channel.creation == command else {
            if case .created(let id) = reply { try removeUnused(id) }
            return
        }
        switch reply {
        case .created(let id):
            plan.candidates = nil
            try name(channel, createdAs: id)
        case .refused(let refusal):
            plan.candidates = nil
            try store.apply(.refused(refusal, retryAt: retryAt), to: channel, now: now)
        case .unclear(let reason):
            try store.apply(.delayed(reason, until: max(now, endsAt ?? channel.dueAt ?? now)), to: channel, now: now)
        case .described, .deleted, .listed: break
        }
    }

    private func name(_ channel: BroadcastChannel, createdAs id: ChannelID) throws {
        if let known = try store.find(appleID: id) {
            // A backend has adopted it under another name.
            guard known.state == .foreign else {
                try store.apply(.notCreated, to: channel, now: now)
                return
            }
            // One row names it from now on.
            try store.apply(.absent, to: known, now: now)
        }
        try store.apply(.created(id), to: channel, now: now)
    }

    /// This platform created the channel, and no name waits for it.
    private func removeUnused(_ id: ChannelID) throws {
        if let known = try store.find(appleID: id) {
            if known.state == .foreign { try store.apply(.unwanted, to: known, now: now) }
        } else {
            try store.insert(BroadcastChannel(.deleting, in: store.environment, appleID: id, now: now))
        }
    }

    private mutating func end(_ channel: BroadcastChannel, _ reply: ChannelReply) throws {
        switch reply {
        case .described(let storage): try store.apply(.described(storage), to: channel, now: now)
        case .deleted: try store.apply(.absent, to: channel, now: now)
        case .refused(let refusal) where refusal.isAbsence: try store.apply(.absent, to: channel, now: now)
        case .refused(let refusal) where channel.state == .foreign && !refusal.isTemporary:
            plan.candidates?.removeAll { $0 == channel.appleID?.text }
        case .refused(let refusal) where channel.state == .foreign: try delayUncertain(refusal.reason)
        case .unclear(let reason) where channel.state == .foreign: try delayUncertain(reason)
        case .refused(let refusal): try store.apply(.refused(refusal, retryAt: retryAt), to: channel, now: now)
        case .unclear(let reason): try store.apply(.delayed(reason, until: retryAt), to: channel, now: now)
        case .created, .listed: break
        }
    }

    /// A foreign channel is read because of a create without an answer, which then waits.
    private func delayUncertain(_ reason: String) throws {
        if let uncertain = try store.uncertain() { try store.apply(.delayed(reason, until: retryAt), to: uncertain, now: now) }
    }

    // MARK: Lists

    private mutating func endList(_ reply: ChannelReply) throws {
        let rows = try store.all()
        guard case .listed(let ids) = reply else { return try delayList(reply, rows) }
        let listed = Set(ids)
        for row in rows {
            if let id = row.appleID { try store.apply(.listed(listed.contains(id)), to: row, now: now) }
        }
        let unknown = listed.subtracting(rows.compactMap(\.appleID))
        try store.insertForeign(unknown.sorted { $0.text < $1.text }, now: now)
        if rows.contains(where: { $0.creation != nil }) { plan.candidates = unknown.map(\.text) }
        let isEmpty = rows.isEmpty && unknown.isEmpty
        plan.listedAt = isEmpty ? nil : now
        plan.listFrom = isEmpty ? nil : now + settings.listInterval.milliseconds
    }

    /// Creates wait for the first list, so its refusal is theirs.
    private mutating func delayList(_ reply: ChannelReply, _ rows: [BroadcastChannel]) throws {
        plan.listFrom = retryAt
        for row in rows where row.state == .creating || row.state == .deleting {
            guard row.creation != nil || plan.listedAt == nil && row.appleID == nil else { continue }
            switch reply {
            case .refused(let refusal) where row.creation == nil:
                try store.apply(.refused(refusal, retryAt: retryAt), to: row, now: now)
            case .refused(let refusal): try store.apply(.delayed(refusal.reason, until: retryAt), to: row, now: now)
            case .unclear(let reason): try store.apply(.delayed(reason, until: retryAt), to: row, now: now)
            case .created, .described, .deleted, .listed: break
            }
        }
    }

    // MARK: Commands

    /// The next request that Apple is to get, recorded as under way; nil if none is due.
    mutating func next(_ id: PushID) throws -> ChannelCommand.Request? {
        while true {
            switch plan.next(try store.waiting(plan), now: now) {
            case .list: return begin(id, .list, nil)
            case .create(let channel, let storage):
                try store.apply(.asked(id), to: channel, now: now)
                return begin(id, .create(storage), channel)
            case .read(let channel, let appleID): return begin(id, .read(appleID), channel)
            case .delete(let channel, let appleID): return begin(id, .delete(appleID), channel)
            case .resolve(let channel, let found):
                plan.candidates = nil
                if let appleID = found?.appleID {
                    try name(channel, createdAs: appleID)
                } else {
                    try store.apply(.notCreated, to: channel, now: now)
                }
            case .wait(let moment):
                plan.dueAt = moment
                return nil
            }
        }
    }

    private mutating func begin(_ id: PushID, _ request: ChannelCommand.Request, _ channel: BroadcastChannel?) -> ChannelCommand.Request {
        let endsAt = now + 2 * settings.commandTimeout.milliseconds
        plan.command = ChannelPlan.UnderWay(id: id, operation: request.operation, channel: channel?.id, endsAt: endsAt)
        plan.dueAt = endsAt
        return request
    }
}

/// How the registry of channels works with the dispatchers.
package struct ChannelSettings: Equatable, Sendable {
    package var listInterval: Duration
    package var commandTimeout: Duration

    package init(_ config: ConfigReader) throws {
        listInterval = try config.read(Self.listInterval)
        commandTimeout = try config.read(Self.commandTimeout)
    }

    package static let all: [any DocumentedSetting] = [listInterval, commandTimeout]

    private static let listInterval = Setting.seconds(
        "channels.list.interval.seconds", 3600, in: 1...86_400,
        "how often the broadcast channels of each app and environment are compared with Apple's list")
    private static let commandTimeout = Setting.milliseconds(
        "channels.command.timeout.ms", 15_000, in: 100...300_000,
        "for so long a dispatcher may begin a request about a channel, and for as long again it may wait for Apple")

    /// The delay after a refusal that may pass.
    var retryDelay: Duration { commandTimeout * 2 }
}

extension Duration {
    var milliseconds: Int64 { Int64(self / .milliseconds(1)) }
}

/// What a dispatcher's answer says about a command.
enum ChannelReply: Equatable {
    case created(ChannelID)
    case described(ChannelStorage)
    case deleted
    case listed([ChannelID])
    case refused(ChannelRefusal)
    /// Apple may have carried it out, or not.
    case unclear(String)

    /// No answer came in time.
    static let lost = ChannelReply.unclear("unanswered")

    init(_ answer: ChannelAnswer) {
        let reason = answer.reason.flatMap(OutsideText.harmless)
        switch answer.result {
        case .done:
            let reply: ChannelReply? =
                switch answer.operation {
                case .create: answer.channelID.flatMap { ChannelID($0) }.map { .created($0) }
                case .read: answer.storage.map { .described($0) }
                case .delete: .deleted
                case .list: answer.channels.map { .listed($0.compactMap { ChannelID($0) }) }
                }
            self = reply ?? .unclear("unreadable_answer")
        case .refused: self = .refused(ChannelRefusal(status: answer.status ?? 500, reason: reason ?? "HTTP \(answer.status ?? 500)"))
        // Another dispatcher may have begun the command before.
        case .unanswered, .expired, .noCredential: self = .unclear(reason ?? answer.result.rawValue)
        }
    }
}
