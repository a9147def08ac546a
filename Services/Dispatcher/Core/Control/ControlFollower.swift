import Broker
import PushModel

/// How far the control stream has been read. Jobs are sent only while it is ``current``.
enum ControlPosition: Equatable, Sendable {
    case disconnected
    /// A marker of ours was handed to the publisher at `since` and has not come back yet. The broker answered for it at `confirmed`.
    case catchingUp(marker: PushID, since: Int64, confirmed: Int64? = nil)
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

    mutating func markerPublished(_ marker: PushID, at now: Int64) {
        guard case .catchingUp(marker, let since, nil) = position else { return }
        position = .catchingUp(marker: marker, since: since, confirmed: now)
    }

    /// Entries of the stream, in its order.
    mutating func read(
        _ messages: [ReceivedMessage], _ directory: inout CredentialDirectory, at now: Int64, _ effects: inout CoreEffects
    ) -> Change {
        readAt = now
        var change = Change()
        for message in messages {
            do throws(MessageError) {
                try obey(ControlMessage(decoding: message.body), &directory, at: now, &change, &effects)
            } catch {
                effects.actions.append(.note(.unreadableControlMessage(detail: error.description)))
            }
        }
        effects.actions.append(.acknowledgeControl(messages.map(\.receipt)))
        return change
    }

    private mutating func obey(
        _ message: ControlMessage, _ directory: inout CredentialDirectory, at now: Int64, _ change: inout Change,
        _ effects: inout CoreEffects
    ) {
        let oldest = now - rules.controlMemory
        switch message {
        case .fence(let app, let installation, let epochsBelow, let at) where at >= oldest:
            effects.tally.controlApplied[.fence, default: 0] += 1
            let app = directory.number(of: app)
            gate.apply { $0.fence(app: app, installation: installation, epochsBelow: epochsBelow, at: at) }
        case .cancel(let app, let notification, let at) where at >= oldest:
            effects.tally.controlApplied[.cancel, default: 0] += 1
            let app = directory.number(of: app)
            gate.apply { $0.cancel(app: app, notification: notification, at: at) }
            change.cancelled.append((app, notification))
        case .hold(let id, let scope, let endsAt, let at) where at >= oldest:
            effects.tally.controlApplied[.hold, default: 0] += 1
            let hold = HoldBook.Hold(id: id, scope: directory.numbered(scope), endsAt: endsAt, writtenAt: at)
            guard holds.add(hold, at: now) else { return }
            change.holdsChanged = true
            // At the start of the stream the hold may be lifted further on.
            if position == .current { effects.actions.append(.note(.holdInForce(id: id, app: scope.app, lane: scope.lane))) }
        case .unhold(let id, let at) where at >= oldest:
            effects.tally.controlApplied[.unhold, default: 0] += 1
            guard holds.lift(id, at: at) else { return }
            change.holdsChanged = true
            if position == .current { effects.actions.append(.note(.holdOver(id: id))) }
        case .marker(let id):
            guard case .catchingUp(id, let since, _) = position else { return }
            // Newer entries may lie unread behind a late marker: it proves nothing about them.
            guard (0...rules.confirmPatience).contains(now - since) else { return askForProof(at: now, &effects) }
            position = .current
            provenAt = since
            if isDoubtNoted { effects.actions.append(.note(.controlCaughtUp(holds: holds.count))) }
            isDoubtNoted = false
            change.isCaughtUp = true
        case .fence, .cancel, .hold, .unhold, .other: break
        }
    }

    // MARK: Time

    /// - Returns: whether other holds are in force than before.
    mutating func tick(at now: Int64, oldestUnconfirmed: Int64?, _ effects: inout CoreEffects) -> Bool {
        doubt(at: now, oldestUnconfirmed: oldestUnconfirmed, &effects)
        gate.apply { $0.forget(before: now - rules.controlMemory) }
        var over = holds.end(at: now)
        if now - forgottenAt >= 60_000 || now < forgottenAt {
            forgottenAt = now
            over += holds.forget(before: now - rules.controlMemory)
        }
        for id in over { effects.actions.append(.note(.holdOver(id: id))) }
        return !over.isEmpty
    }

    /// If the broker takes too long to confirm, the control stream may be late too, though no connection is known to be lost (a network cut
    /// shows only after a heartbeat): sending stops until a new marker comes back. If the confirmation still does not come, that marker is
    /// good for ``CoreRules/confirmPatience``, and then the next one is published: a queue that confirms nothing does not stop sending.
    ///
    /// If the reader's node is not the confirming node, confirmations prove nothing about the stream: each marker that comes back lets
    /// sending go on for ``CoreRules/confirmPatience``.
    ///
    /// If the broker has the marker and the reader does not get it, both get new connections: after a change of leader RabbitMQ may leave a
    /// reader without a word (``BrokerQuirks``).
    private mutating func doubt(at now: Int64, oldestUnconfirmed: Int64?, _ effects: inout CoreEffects) {
        switch position {
        case .disconnected, .catchingUp(_, _, nil): return
        case .catchingUp(_, _, let confirmed?):
            guard now - max(confirmed, readAt) >= rules.markerPatience else { return }
            readAt = now
            effects.actions.append(
                .reconnectControl(because: "the broker has a marker that the reader of the control stream does not get"))
        case .current:
            guard let oldest = readsWhereItPublishes ? oldestUnconfirmed : provenAt else { return }
            // A moment in the future is from before the clock was set back, and may be long ago.
            let trusted = [oldest, provenAt].filter { $0 <= now }.max() ?? 0
            guard now - trusted >= rules.confirmPatience else { return }
            if readsWhereItPublishes {
                let patience = rules.confirmPatience
                noteDoubt(
                    because: "the broker owes a confirmation for longer than BROKER_CONFIRM_PATIENCE_MILLISECONDS (\(patience)) allows",
                    &effects)
            }
            askForProof(at: now, &effects)
        }
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
