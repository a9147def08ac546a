import CoreMetrics
import Logging
import Metrics
import PushModel
import RabbitMQ
import Synchronization
import SystemIO

/// The consumer's thread: owns the connection and the record of unsettled messages. Single-threaded, hence plain variables.
final class ConsumerLoop {
    let core: ConsumerCore
    let link: BrokerLink
    /// Grows with every connection, so that delivery tags of an older one are recognised.
    private var generation: UInt64 = 0
    private(set) var batcher: AckBatcher
    var subscribed: [SubscribedQueue]
    private var actions: [AckBatcher.Action] = []
    private var events: [RabbitMQEvent] = []
    private var isTaking = true
    private var isCancelled = false
    /// The connection will be closed, and another opened, once its messages are settled.
    var isRenewing = false

    init(_ core: ConsumerCore) throws(SystemError) {
        self.core = core
        link = try BrokerLink(core.settings.link, wokenBy: core.wakeUp, logger: core.logger)
        let subscriptions = core.settings.subscriptions
        batcher = AckBatcher(prefetch: subscriptions.reduce(0) { $0 + Int($1.prefetch) }, subscriptions: subscriptions.count)
        subscribed = subscriptions.enumerated().map { SubscribedQueue($1, index: $0, of: subscriptions.count) }
    }

    /// Runs until a stop was requested and everything is settled, or its time is up.
    func run() throws {
        defer { end() }
        while true {
            link.passed()
            core.wakeUp.clear()
            core.inbox.takeAll().forEach(obey)
            let stopAt = core.status.withLock { status in
                status.unsettled = batcher.outstanding
                return status.stopAt
            }
            if let stopAt {
                isTaking = false
                if .now >= stopAt || (isSettled && (isCancelled || link.connection == nil)) { return }
            }
            var patience = stopAt.map { min(BrokerLink.longestWait, ContinuousClock.now.duration(to: $0)) } ?? BrokerLink.longestWait
            if link.connection == nil {
                // Once taking has stopped and the connection is gone, nothing can be settled any more: a new connection would have no use.
                guard isTaking, link.pause <= .zero else {
                    try link.sleep(upTo: isTaking ? min(link.pause, patience) : patience)
                    continue
                }
                connect()
            }
            if let deadline = batcher.deadline { patience = min(patience, ContinuousClock.now.duration(to: deadline)) }
            if let connection = link.connection { exchange(connection, patience, isEnding: stopAt != nil) }
        }
    }

    // MARK: Connection

    private func connect() {
        do throws(RabbitMQError) {
            try link.connect { () throws(RabbitMQError) in
                // A new connection could settle nothing.
                guard core.status.withLock({ $0.stopAt }) == nil else { throw .stopped }
            } prepare: { connection throws(RabbitMQError) in
                try subscribe(connection)
            } opened: {
                isCancelled = false
                generation += 1
                setConnected(true)
            }
        } catch {
            lost(error)
        }
    }

    /// Forgets the connection: its deliveries cannot be answered any more, because the same tags mean other messages on the next
    /// connection.
    private func forgetConnection() {
        link.leave()
        isRenewing = false
        batcher.reset()
        actions.removeAll(keepingCapacity: true)
        events.removeAll(keepingCapacity: true)
    }

    /// Closes the connection, whose messages are all settled: the next round opens another.
    private func renew(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        try awaitSettlements(connection)
        connection.close()
        forgetConnection()
        setConnected(false)
    }

    private func lost(_ error: RabbitMQError) {
        let wasConnected = link.connection != nil
        let unsettled = batcher.outstanding
        forgetConnection()
        link.failed(error, unfinished: (BrokerLogKey.unsettled, unsettled))
        if wasConnected { setConnected(false) }
    }

    private func setConnected(_ isConnected: Bool) {
        core.status.withLock {
            $0.isConnected = isConnected
            $0.peer = link.connection?.peer
            $0.unsettled = batcher.outstanding
        }
        core.settings.onConnectionChange(isConnected)
    }

    private var isSettled: Bool { batcher.outstanding == 0 && !batcher.isBehind && actions.isEmpty }

    private func end() {
        core.inbox.close().forEach(obey)
        if let connection = link.connection {
            // Acknowledges messages that were settled in time, also if the time was up for the rest.
            do throws(RabbitMQError) {
                batcher.flush(now: .now, force: true, into: &actions)
                try perform(connection)
                // A broker that stands still must not delay a stop.
                connection.waitForAnswers(atMost: .seconds(2))
                try awaitSettlements(connection)
                connection.close()
            } catch {
                core.logger.debug(
                    "The connection ended before its goodbye",
                    metadata: [BrokerLogKey.client: "\(core.settings.link.name)", BrokerLogKey.error: "\(error)"])
            }
            link.leave()
            setConnected(false)
        }
    }

    // MARK: One round

    private var wantsMessages: Bool { isTaking && !isRenewing }

    private func exchange(_ connection: RabbitMQConnection, _ patience: Duration, isEnding: Bool) {
        do throws(RabbitMQError) {
            try connection.receive(into: &events)
            try handleEvents()
            if wantsMessages { try lookAfterSilentQueues(connection) }
            if !wantsMessages, !isCancelled {
                try cancelAll(connection)
                isCancelled = true
            }
            batcher.flush(now: .now, force: !wantsMessages, into: &actions)
            try perform(connection)
            // No event would wake this thread any more: the end is now.
            if isEnding, isCancelled, isSettled { return }
            if isRenewing, isCancelled, isSettled { return try renew(connection) }
            try connection.wait(orUntil: core.wakeUp.descriptor, timeout: patience)
        } catch {
            lost(error)
        }
    }

    private func perform(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        for action in actions {
            switch action {
            case .acknowledge(let tag, let multiple): try connection.acknowledge(tag, multiple: multiple)
            case .refuse(let tag, let requeue): try connection.refuse(tag, requeue: requeue)
            }
        }
        actions.removeAll(keepingCapacity: true)
    }

    private func obey(_ command: ConsumerCore.Command) {
        switch command {
        case .acknowledge(let deliveryTags):
            for deliveryTag in deliveryTags where deliveryTag.generation == generation && link.connection != nil {
                batcher.finish(deliveryTag.tag)
            }
        case .giveBack(let deliveryTags): refuse(deliveryTags, requeue: true)
        case .discard(let deliveryTags): refuse(deliveryTags, requeue: false)
        case .stopTaking: isTaking = false
        case .readAnew(let reason, let leavingNode):
            guard let connection = link.connection else { break }
            if leavingNode { connection.leaveNode() }
            for index in subscribed.indices {
                subscribed[index].streamPosition?.gaveNothing()
                if subscribed[index].streamPosition?.standing == .lost { forgetStream(index) }
            }
            lost(.givenUp(because: reason))
        }
    }

    private func refuse(_ deliveryTags: [DeliveryTag], requeue: Bool) {
        for deliveryTag in deliveryTags where deliveryTag.generation == generation && link.connection != nil {
            batcher.refuse(deliveryTag.tag, requeue: requeue, into: &actions)
        }
    }

    private func handleEvents() throws(RabbitMQError) {
        guard !events.isEmpty else { return }
        var messages: [ReceivedMessage] = []
        messages.reserveCapacity(events.count)
        var end: RabbitMQError?
        let now = ContinuousClock.now
        for event in events {
            switch event {
            case .delivery(let delivery):
                receive(delivery, now, into: &messages)
            case .consumerCancelled(let consumer):
                end = RabbitMQError(.channelClosed(404), "consume", "the broker cancelled the consumer of \(queueName(consumer))")
            case .confirmed, .refused, .returned, .blocked, .unblocked: break
            }
        }
        events.removeAll(keepingCapacity: true)
        core.metrics.received.increment(by: messages.count)
        if !messages.isEmpty { core.settings.onMessages(messages) }
        if let end { throw end }
    }

    private func queueName(_ consumer: Int) -> String {
        subscriptionIndex(of: consumer).map { subscribed[$0].subscription.queue } ?? "?"
    }

    /// Answers messages itself that are not for the caller.
    private func receive(_ delivery: RabbitMQDelivery, _ now: ContinuousClock.Instant, into messages: inout [ReceivedMessage]) {
        let index = subscriptionIndex(of: delivery.consumer)
        guard wantsMessages, let index else {
            batcher.delivered(of: index ?? 0)
            batcher.refuse(delivery.tag, requeue: true, into: &actions)
            return
        }
        batcher.delivered(of: index)
        let subscription = subscribed[index].subscription
        subscribed[index].silentSince = now
        if delivery.isOversized {
            batcher.refuse(delivery.tag, requeue: false, into: &actions)
            core.metrics.oversized.increment()
            core.logger.error(
                "A message is too large and was dead-lettered",
                metadata: [BrokerLogKey.client: "\(core.settings.link.name)", BrokerLogKey.queue: "\(subscription.queue)"])
            return
        }
        var offset: Int64?
        if subscription.kind == .stream {
            offset = delivery.properties.header(Subscription.streamOffset)?.integer
            // Messages that are still on their way from an ended reader come from the new one too.
            let isNew =
                delivery.consumer == subscribed[index].consumer
                && offset.flatMap { subscribed[index].streamPosition?.arrived($0, messageID: delivery.properties.messageID) } ?? true
            guard isNew else {
                batcher.finish(delivery.tag)
                return
            }
        }
        messages.append(
            ReceivedMessage(
                deliveryTag: DeliveryTag(generation: generation, tag: delivery.tag), queue: subscription.queue,
                routingKey: delivery.routingKey,
                redelivered: delivery.isRedelivered, body: delivery.body, streamOffset: offset, properties: delivery.properties))
    }
}

/// The consumers on one connection, one for each subscription. None gets a number that was used before (``BrokerQuirks``).
extension ConsumerLoop {
    func subscriptionIndex(of consumer: Int) -> Int? {
        consumer >= 0 && !subscribed.isEmpty ? consumer % subscribed.count : nil
    }

    func subscribe(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        for index in subscribed.indices { try consume(index, connection) }
    }

    private func consume(_ index: Int, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        let subscription = subscribed[index].subscription
        let (number, arguments) = subscribed[index].beginConsumer()
        try connection.limitUnacknowledged(subscription.prefetch)
        var queue = subscription.queue
        if subscription.kind == .copies {
            queue += "." + PushID.random().description
            try connection.declareOwnQueue(queue, arguments: Subscription.copiesArguments)
            try connection.bind(queue: queue, to: subscription.queue, routingKey: "")
        }
        try connection.consume(queue: queue, consumer: number, arguments: arguments)
    }

    /// Checks, for each queue that has delivered nothing for a while and has no unsettled message, whether the broker still has its
    /// consumer.
    func lookAfterSilentQueues(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        let now = ContinuousClock.now
        for index in subscribed.indices {
            let silence = subscribed[index].silentSince.duration(to: now)
            if let standing = subscribed[index].streamPosition?.standing {
                switch standing {
                case .certain where silence >= core.settings.silenceLimit: try ask(index, connection)
                // The caller gets a lost connection, and no longer relies on having read the stream to its end.
                case .beginning where silence >= Self.streamPatience: isRenewing = true
                case .lost: forgetStream(index)
                default: break
                }
            } else if subscribed[index].subscription.kind == .queue, silence >= core.settings.silenceLimit,
                batcher.outstanding(of: index) == 0
            {
                try ask(index, connection)
            }
        }
    }

    private func ask(_ index: Int, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        guard try BrokerQuirks.keepsNewQueuesSecret(connection) else {
            subscribed[index].silentSince = .now
            return
        }
        if subscribed[index].subscription.kind == .stream {
            try readStreamAnew(index, connection)
        } else {
            try consumeAnew(index, connection)
        }
    }

    /// How long a stream may take to deliver the message at which its reader began.
    private static let streamPatience = Duration.seconds(5)

    private func readStreamAnew(_ index: Int, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        try cancel(index, connection)
        try consume(index, connection)
    }

    /// Reads it from its beginning over another connection, so that the caller gets a change of connection.
    func forgetStream(_ index: Int) {
        core.logger.warning(
            "A stream is not the one that was read: it was probably deleted and declared again. Reading it from its beginning",
            metadata: [BrokerLogKey.client: "\(core.settings.link.name)", BrokerLogKey.queue: "\(subscribed[index].subscription.queue)"])
        core.metrics.renewals.increment()
        subscribed[index].streamPosition?.forget()
        isRenewing = true
    }

    /// Consumes anew, and counts: without our consumer the queue must have one fewer. If not, the connection has to be closed, once all its
    /// messages are settled. A service that comes or goes in these milliseconds can falsify the count: then we connect anew without need,
    /// or check again later.
    private func consumeAnew(_ index: Int, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        let queue = subscribed[index].subscription.queue
        let expected = try connection.queueState(queue).consumers - 1
        try cancel(index, connection)
        let left = try connection.queueState(queue).consumers
        try consume(index, connection)
        guard expected >= 0, left > expected else { return }
        core.logger.warning(
            "A queue holds messages for a consumer that does not get them: it was probably deleted and declared again. Connecting anew",
            metadata: [BrokerLogKey.client: "\(core.settings.link.name)", BrokerLogKey.queue: "\(queue)"])
        core.metrics.renewals.increment()
        isRenewing = true
    }

    private func cancel(_ index: Int, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        try connection.cancel(consumer: subscribed[index].consumer)
    }

    func cancelAll(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        for index in subscribed.indices { try cancel(index, connection) }
    }

    /// Returns when every acknowledgement is applied, so that the connection may be closed.
    ///
    /// RabbitMQ's channel holds back commands for a quorum queue while 32 commands are not applied (``BrokerQuirks``). The beginning and
    /// the end of a consumer are commands that it waits for. The first answer proves that the commands sent before it are applied. The
    /// channel learns of that while it waits for the second answer, and then sends the commands that it held back. The third command comes
    /// behind them.
    func awaitSettlements(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        for index in subscribed.indices where subscribed[index].subscription.kind == .queue {
            // This consumer is not here for messages: others come first. A message that it gets goes back when the connection is closed.
            try connection.limitUnacknowledged(1)
            for isLast in [false, true] {
                link.passed()
                let number = subscribed[index].newNumber()
                try connection.consume(queue: subscribed[index].subscription.queue, consumer: number, arguments: ["x-priority": -1000])
                if !isLast { try connection.cancel(consumer: number) }
            }
        }
    }
}
