import Broker
import PushModel

/// How far the control stream has been read. Jobs are sent only while it is ``current``.
enum ControlPosition: Equatable, Sendable {
    case disconnected
    /// A marker of ours was handed to the publisher at `since` and has not come back yet. The broker answered for it at `answered`.
    case catchingUp(marker: PushID, since: Int64, answered: Int64? = nil)
    case current
}

/// Follows the control stream: fences, cancels, holds, and the proof that none was missed (docs/promises.md, 3 and 6).
struct ControlFollower {
    /// The core's work after a message was read.
    struct Change {
        var isCaughtUp = false
        /// Other holds are in force than before.
        var holdsChanged = false
        var cancelled: [(app: ControlState.AppIndex, notification: PushID)] = []
    }

    private let rules: CoreRules
    private let gate: ControlGate
    private(set) var position = ControlPosition.disconnected
    private(set) var holds = HoldBook()
    /// The connection that reads the control stream and the one that publishes are at the same node.
    var readsWhereItPublishes = true
    /// The log says that the control stream is uncertain, and does not yet say that it is certain again.
    private var isDoubtNoted = true
    /// When the marker that came back last was published.
    private var provenAt: Int64 = 0
    /// When a message was read last, or the connection came up.
    private var readAt: Int64 = 0
    private var forgottenAt: Int64 = 0
    /// Copies of entries that have not come from the stream yet, and since when.
    private var copies: [PushID: Int64] = [:]
    /// The last entries of the stream, whose copies may still come: the newest, and those before them.
    private var entries: (new: Set<PushID>, old: Set<PushID>) = ([], [])
    /// How many copies, and how many entries, are remembered at most; and how long an entry is remembered at least, in milliseconds.
    private static let mostRemembered = 10_000
    private static let entryMemory: Int64 = 30_000
    private var entriesSince: Int64 = 0
    /// How long a marker is waited for while other entries come, in milliseconds.
    private static let markerAge: Int64 = 10_000
    /// How long reader and publisher stay at different nodes, in milliseconds.
    private static let separation: Int64 = 10_000
    /// Readers in a row that did not get our marker.
    private var silentReaders = 0
    /// Since when the reader has been at another node than the publisher.
    private var elsewhereSince: Int64?

    init(rules: CoreRules, gate: ControlGate) {
        self.rules = rules
        self.gate = gate
    }

    // MARK: What happens

    mutating func connection(isUp: Bool, at now: Int64, _ effects: inout CoreEffects) {
        guard isUp else {
            if position != .disconnected { noteDoubt(because: "the connection that reads it is lost", &effects) }
            position = .disconnected
            return gate.close()
        }
        readAt = now
        askForProof(at: now, &effects)
    }

    mutating func markerPublished(_ marker: PushID, _ outcome: PublishOutcome, at now: Int64) {
        guard case .catchingUp(marker, let since, nil) = position else { return }
        // The broker did not take it, so it will not come back: it counts as one that the reader does not get.
        if !outcome.isConfirmed { readAt = since }
        position = .catchingUp(marker: marker, since: since, answered: outcome.isConfirmed ? now : since)
    }

    /// Entries of the stream, in its order, or copies of entries, which come beside it.
    mutating func read(
        _ messages: [ReceivedMessage], _ directory: inout CredentialDirectory, at now: Int64, wall: Int64, _ effects: inout CoreEffects
    ) -> Change {
        var change = Change()
        for message in messages {
            let isCopy = message.streamOffset == nil
            if !isCopy { readAt = now }
            match(message.messageID, isCopy: isCopy, at: now)
            do throws(MessageError) {
                try obey(ControlMessage(decoding: message.body), isCopy: isCopy, &directory, at: now, wall: wall, &change, &effects)
            } catch {
                effects.actions.append(.note(.unreadableControlMessage(detail: error.description)))
            }
        }
        effects.actions.append(.acknowledgeControl(messages.map(\.deliveryTag)))
        return change
    }

    /// Each entry comes from the stream, and as one copy or more, in any order. One of which only the copy came shows that the stream is
    /// late.
    private mutating func match(_ id: PushID?, isCopy: Bool, at now: Int64) {
        guard let id else { return }
        if !isCopy {
            copies[id] = nil
            if entries.new.count >= Self.mostRemembered || now - entriesSince >= Self.entryMemory {
                entries = ([], entries.new)
                entriesSince = now
            }
            entries.new.insert(id)
        } else if position == .current, copies.count < Self.mostRemembered, !entries.new.contains(id), !entries.old.contains(id) {
            copies[id] = copies[id] ?? now
        }
    }

    private mutating func obey(
        _ message: ControlMessage, isCopy: Bool, _ directory: inout CredentialDirectory, at now: Int64, wall: Int64,
        _ change: inout Change, _ effects: inout CoreEffects
    ) {
        // An entry is as old as its reading. Its writer's clock and this process's may be wrong, and the broker keeps no older ones.
        switch message {
        case .fence(let app, let installation, let epochsBelow, _):
            if !isCopy { effects.tally.controlApplied[.fence, default: 0] += 1 }
            let app = directory.number(of: app)
            gate.apply { $0.fence(app: app, installation: installation, epochsBelow: epochsBelow, at: now) }
        case .cancel(let app, let notification, _):
            if !isCopy { effects.tally.controlApplied[.cancel, default: 0] += 1 }
            let app = directory.number(of: app)
            gate.apply { $0.cancel(app: app, notification: notification, at: now) }
            change.cancelled.append((app, notification))
        case .hold(let id, let scope, let endsAt, _):
            if !isCopy { effects.tally.controlApplied[.hold, default: 0] += 1 }
            let hold = HoldBook.Hold(id: id, scope: directory.numbered(scope), endsAt: endsAt, readAt: now)
            guard holds.add(hold, wall: wall) else { return }
            change.holdsChanged = true
            // At the start of the stream the hold may be lifted further on.
            if position == .current { effects.actions.append(.note(.holdInForce(id: id, app: scope.app, lane: scope.lane))) }
        case .unhold(let id, _):
            if !isCopy { effects.tally.controlApplied[.unhold, default: 0] += 1 }
            guard holds.lift(id, at: now) else { return }
            change.holdsChanged = true
            if position == .current { effects.actions.append(.note(.holdOver(id: id))) }
        case .marker(let id):
            guard case .catchingUp(id, let since, _) = position else { return }
            // Newer entries may lie unread behind a late marker: it proves nothing about them.
            guard (0...rules.confirmPatience).contains(now - since) else { return askForProof(at: now, &effects) }
            position = .current
            provenAt = since
            silentReaders = 0
            // All entries before the marker were read.
            copies = [:]
            if isDoubtNoted { effects.actions.append(.note(.controlCaughtUp(holds: holds.count))) }
            isDoubtNoted = false
            change.isCaughtUp = true
        case .other: break
        }
    }

    // MARK: Time

    /// - Returns: whether other holds are in force than before.
    /// - Parameter isConfirming: the broker confirms what is published now.
    mutating func tick(at now: Int64, wall: Int64, isConfirming: Bool, _ effects: inout CoreEffects) -> Bool {
        doubt(at: now, isConfirming: isConfirming, &effects)
        comeTogether(at: now, &effects)
        gate.apply { $0.forget(before: now - rules.controlMemory) }
        var change = holds.keepTime(wall: wall)
        if now - forgottenAt >= 60_000 {
            forgottenAt = now
            let over = holds.forget(before: now - rules.controlMemory)
            change.over += over
            change.isOther = change.isOther || !over.isEmpty
        }
        for id in change.over { effects.actions.append(.note(.holdOver(id: id))) }
        return change.isOther
    }

    /// If the broker takes too long to confirm, the control stream may be late too, though no connection is known to be lost (a network cut
    /// shows only after a heartbeat): sending stops until a new marker comes back. If the broker still confirms nothing, that marker is
    /// good for ``CoreRules/confirmPatience``, and then the next one is published.
    ///
    /// If the reader's node is not the confirming node, confirmations prove nothing about the stream: each marker that comes back lets
    /// sending go on for ``CoreRules/confirmPatience``.
    ///
    /// Confirmations come from other queues, and say nothing about a stream whose replica on this node stands still. The copy of its next
    /// entry does.
    ///
    /// If the broker has the marker and the reader does not get it, both get new connections: after a change of leader RabbitMQ may leave a
    /// reader without a word (``BrokerQuirks``). If that does not help, they go to another node. While old entries are being read, the
    /// marker is far behind, and a newer one takes its place from time to time, in case the broker lost it.
    private mutating func doubt(at now: Int64, isConfirming: Bool, _ effects: inout CoreEffects) {
        switch position {
        case .disconnected, .catchingUp(_, _, nil): return
        case .catchingUp(_, _, let answered?):
            if now - max(answered, readAt) >= rules.markerPatience {
                readAt = now
                silentReaders += 1
                effects.actions.append(
                    .reconnectControl(
                        because: "the broker has a marker that the reader of the control stream does not get",
                        leavingNode: silentReaders > 1))
            } else if now - answered >= Self.markerAge {
                askForProof(at: now, &effects)
            }
        case .current:
            if copies.values.contains(where: { now - $0 >= rules.markerPatience }) {
                noteDoubt(because: "an entry came as a copy and not from the stream", &effects)
                return askForProof(at: now, &effects)
            }
            guard !readsWhereItPublishes || !isConfirming else { return }
            guard now - provenAt >= rules.confirmPatience else { return }
            if readsWhereItPublishes {
                let patience = rules.confirmPatience
                noteDoubt(
                    because: "the broker owes a confirmation for longer than BROKER_CONFIRM_PATIENCE_MILLISECONDS (\(patience)) allows",
                    &effects)
            }
            askForProof(at: now, &effects)
        }
    }

    /// Markers a second prove what confirmations prove for nothing, and each of them stays in the stream for days.
    private mutating func comeTogether(at now: Int64, _ effects: inout CoreEffects) {
        guard !readsWhereItPublishes, position != .disconnected else { return elsewhereSince = nil }
        guard let since = elsewhereSince else { return elsewhereSince = now }
        guard now - since >= Self.separation else { return }
        elsewhereSince = now
        effects.actions.append(.reconnectPublisher(because: "the control stream is read at another node"))
    }

    /// The sockets are read in any order: a job may arrive before a fence that was written long before it.
    mutating func resumed(at now: Int64, _ effects: inout CoreEffects) {
        guard position == .current else { return }
        noteDoubt(because: "the process stood still", &effects)
        askForProof(at: now, &effects)
    }

    /// The broker did not confirm a heartbeat.
    mutating func heartbeatFailed(at now: Int64, _ effects: inout CoreEffects) {
        guard position == .current else { return }
        noteDoubt(because: "the broker takes no messages", &effects)
        askForProof(at: now, &effects)
    }

    /// Publishes a marker. The broker confirmed every earlier fence, so those fences stand before the marker in the stream.
    private mutating func askForProof(at now: Int64, _ effects: inout CoreEffects) {
        gate.close()
        let marker = PushID.random()
        position = .catchingUp(marker: marker, since: now)
        let message = OutgoingMessage(
            exchange: "", routingKey: rules.topology.controlStream, messageID: marker, contentType: ControlMessage.contentType,
            body: ControlMessage.marker(id: marker).encoded())
        effects.actions.append(.publishMarker(marker, message))
    }

    private mutating func noteDoubt(because reason: String, _ effects: inout CoreEffects) {
        effects.tally.controlDoubts += 1
        isDoubtNoted = true
        effects.actions.append(.note(.controlUncertain(because: reason)))
    }
}
