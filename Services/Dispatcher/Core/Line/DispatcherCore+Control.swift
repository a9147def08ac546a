import APNs
import Broker
import PushModel

/// How far the control stream has been read. Jobs are sent only while it is ``current``.
enum ControlStanding: Equatable, Sendable {
    case disconnected
    /// A marker of ours was handed to the publisher at `since` and has not come back yet. The broker answered for it at `confirmed`.
    case catchingUp(marker: PushID, since: Int64, confirmed: Int64? = nil)
    case current
}

/// The control stream: fences, cancels, holds, and the proof that none was missed (promises 3 and 6).
extension DispatcherCore {
    mutating func controlConnection(isUp: Bool, at now: Int64) {
        guard isUp else {
            if control != .disconnected { noteDoubt(because: "the connection that reads it is lost") }
            control = .disconnected
            return gate.close()
        }
        controlRead = now
        askForProof(at: now)
    }

    /// Publishes a marker. Whoever wrote a fence before had it confirmed before, so it stands before the marker in the stream.
    private mutating func askForProof(at now: Int64) {
        gate.close()
        let marker = PushID.random()
        control = .catchingUp(marker: marker, since: now)
        let message = OutgoingMessage(
            exchange: "", routingKey: rules.topology.controlStream, messageID: marker, contentType: ControlMessage.contentType,
            body: ControlMessage.marker(id: marker).encoded())
        actions.append(.publishMarker(marker, message))
    }

    mutating func markerPublished(_ marker: PushID, at now: Int64) {
        guard case .catchingUp(marker, let since, nil) = control else { return }
        control = .catchingUp(marker: marker, since: since, confirmed: now)
    }

    /// Entries of the stream, in its order.
    mutating func obey(_ messages: [ReceivedMessage], at now: Int64) {
        controlRead = now
        for message in messages {
            do throws(MessageError) {
                try obey(ControlMessage(decoding: message.body), at: now)
            } catch {
                actions.append(.note(.unreadableControlMessage(detail: error.description)))
            }
        }
        actions.append(.acknowledgeControl(messages.map(\.receipt)))
    }

    private mutating func obey(_ message: ControlMessage, at now: Int64) throws(MessageError) {
        switch message {
        case .fence(let app, let installation, let epochsBelow, let at):
            guard at >= now - rules.controlMemory else { return }
            let app = directory.number(of: app)
            tally.controlApplied[.fence, default: 0] += 1
            gate.apply { $0.fence(app: app, installation: installation, epochsBelow: epochsBelow, at: at) }
        case .cancel(let app, let notification, let at):
            guard at >= now - rules.controlMemory else { return }
            let app = directory.number(of: app)
            tally.controlApplied[.cancel, default: 0] += 1
            gate.apply { $0.cancel(app: app, notification: notification, at: at) }
            for job in jobs.values where job.app == app && job.job.notification == notification {
                gate.stop(job.number, because: .cancelled)
            }
        case .hold(let id, let scope, let endsAt, let at):
            guard at >= now - rules.controlMemory else { return }
            hold(id, scope, endsAt: endsAt, toldAt: at, at: now)
        case .unhold(let id, let at):
            guard at >= now - rules.controlMemory else { return }
            lift(id, toldAt: at)
        case .marker(let id):
            guard case .catchingUp(id, let since, _) = control else { break }
            // What was published after the marker may lie unread behind it: a late one tells how things were when it was published.
            if (0...rules.confirmPatience).contains(now - since) { caughtUp(since: since, at: now) } else { askForProof(at: now) }
        case .other: break
        }
    }

    private mutating func caughtUp(since: Int64, at now: Int64) {
        control = .current
        controlProven = since
        if isDoubtNoted { actions.append(.note(.controlCaughtUp(holds: holds.count))) }
        isDoubtNoted = false
        if !hasStartedTaking && !isStopping {
            hasStartedTaking = true
            actions.append(.startTaking)
        }
        goOn(at: now)
    }

    /// Sends what waits here, unless something else still keeps it.
    mutating func goOn(at now: Int64) {
        guard maySend else { return }
        gate.open()
        sendParked(at: now)
    }

    /// When nothing else waits for a confirmation, publishes a message, so that a slow link, a slow broker or a node that lost the others is noticed
    /// by its late confirmation. Without it, a dispatcher at rest would notice only by jobs that arrive before the fences that were delayed with them.
    mutating func sendHeartbeat(at now: Int64) {
        guard control == .current, publications.isEmpty, outbox.isEmpty, !isStopping || !jobs.isEmpty else { return }
        guard now - lastFlush >= rules.heartbeatInterval || now < lastFlush else { return }
        let message = OutgoingMessage(
            exchange: "", routingKey: rules.topology.heartbeatQueue, messageID: .timeOrdered(milliseconds: now),
            contentType: "text/plain", body: [], isMandatory: false)
        outbox.append(OutboundMessage(message: message, covers: [], kind: .heartbeat))
    }

    /// The broker has answered a heartbeat, or the connection was lost before it did.
    mutating func heartbeatEnded(_ outcomes: [PublishOutcome], at now: Int64) {
        guard control == .current, !outcomes.allSatisfy(\.isConfirmed) else { return }
        noteDoubt(because: "the broker takes no messages")
        askForProof(at: now)
    }

    /// When the broker takes too long to confirm, the control stream may be late too, though no connection is known to be lost (a network
    /// cut shows itself only after a heartbeat): nothing more is sent until a new marker has made the round. If the confirmation still stays away,
    /// that marker is good for ``CoreRules/confirmPatience``, and then the next one is asked for: a queue that confirms nothing does not stop sending.
    ///
    /// If the stream is read from another node than the one that confirms, confirmations say nothing about the stream: each marker that comes back
    /// lets sending go on for ``CoreRules/confirmPatience``.
    ///
    /// Where the broker has the marker and the reader does not get it, both get new connections: after a change of leader RabbitMQ may leave a
    /// reader without a word (``BrokerQuirks``).
    mutating func doubtControl(at now: Int64) {
        switch control {
        case .disconnected, .catchingUp(_, _, nil): return
        case .catchingUp(_, _, let confirmed?):
            guard now - max(confirmed, controlRead) >= rules.markerPatience else { return }
            controlRead = now
            actions.append(.reconnectControl(because: "the broker has a marker that the reader of the control stream does not get"))
        case .current:
            guard let oldest = readsWhereItPublishes ? publications.values.lazy.map(\.since).min() : controlProven else { return }
            // What is in the future was before the clock was set back, and may be long ago.
            let trusted = [oldest, controlProven].filter { $0 <= now }.max() ?? 0
            guard now - trusted >= rules.confirmPatience else { return }
            if readsWhereItPublishes {
                noteDoubt(
                    because:
                        "the broker owes a confirmation for longer than BROKER_CONFIRM_PATIENCE_MILLISECONDS (\(rules.confirmPatience)) allows"
                )
            }
            askForProof(at: now)
        }
    }

    private mutating func noteDoubt(because reason: String) {
        tally.controlDoubts += 1
        isDoubtNoted = true
        actions.append(.note(.controlUncertain(because: reason)))
    }

    /// Fences and cancels a few at a time, because every request waits for the gate; holds and throttled devices are the core's alone.
    mutating func forgetControl(at now: Int64) {
        let memory = rules.controlMemory
        gate.apply { $0.forget(before: now - memory) }
        guard now - lastForgotten >= 60_000 || now < lastForgotten else { return }
        lastForgotten = now
        forgetHolds(before: now - memory)
        throttled.forget(now: now)
    }

    mutating func park(_ deliveries: DeliverySet, of job: inout JobInProgress, at now: Int64) {
        if job.parked.isEmpty { job.parkedSince = now }
        for index in deliveries.indices { job.parked.insert(index) }
    }

    /// What waited is sifted anew: a fence may have come meanwhile.
    private mutating func sendParked(at now: Int64) {
        forEachParked(at: now) { core, job, next in
            let waiting = job.parked
            job.parked = DeliverySet()
            core.sift(waiting, of: &job, next: &next, at: now)
            core.spareThrottled(job.pending.intersection(waiting), of: &job, next: &next, at: now)
            core.send(job.pending.intersection(waiting), of: &job, next: &next, at: now)
        }
    }

    /// Jobs that wait too long wait in the broker instead, where they hold nothing up.
    mutating func moveParked(at now: Int64) {
        let patience = rules.parkingPatience
        forEachParked(at: now) { core, job, _ in
            guard now - job.parkedSince >= patience else { return }
            let waiting = job.parked
            job.parked = DeliverySet()
            job.pending.subtract(waiting)
            core.retryLater(waiting.indices, of: &job, after: .atLeast(.seconds(30)), countsAsAttempt: false, at: now)
        }
    }

    private mutating func forEachParked(
        at now: Int64, _ body: (inout DispatcherCore, inout JobInProgress, inout NextSteps) -> Void
    ) {
        for number in jobs.values.filter({ !$0.parked.isEmpty }).map(\.number).sorted() {
            guard var job = jobs.removeValue(forKey: number) else { continue }
            var next = NextSteps()
            body(&self, &job, &next)
            conclude(&job, next, at: now)
            keep(job, at: now)
        }
    }
}
