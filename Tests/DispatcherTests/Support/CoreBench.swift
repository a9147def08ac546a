import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

/// A core under test. The test sends events and reads the effects, sorted by kind.
final class CoreBench {
    var core: DispatcherCore
    let gate = ControlGate()
    var now = Fixture.start
    /// By how much the wall clock was set.
    private var stepped: Int64 = 0

    private(set) var submitted: [(batch: APNsBatch, pool: PoolNumber)] = []
    private(set) var retired: [PoolNumber] = []
    private(set) var published: [(number: PublicationNumber, messages: [OutgoingMessage])] = []
    private(set) var markers: [(id: PushID, message: OutgoingMessage)] = []
    private(set) var acknowledged: [DeliveryTag] = []
    private(set) var givenBack: [DeliveryTag] = []
    private(set) var discarded: [DeliveryTag] = []
    private(set) var others: [CoreAction] = []
    let topology = Topology(prefix: "push")
    private var controlOffset: Int64 = 0

    /// - Parameter isCaughtUp: the control stream has been read already.
    init(isCaughtUp: Bool = true, _ change: (inout CoreRules) -> Void = { _ in }) throws {
        var rules = CoreRules(topology: topology, source: "/push/dispatcher/test")
        // Most tests are about other publications.
        rules.heartbeatInterval = .max
        change(&rules)
        core = DispatcherCore(rules: rules, directory: try Fixture.directory(), gate: gate, seed: 1)
        if isCaughtUp { try catchUp() }
    }

    /// Performs an event and the work that the thread does when nothing else waits.
    func handle(_ event: CoreEvent, flush: Bool = true) {
        core.steady = now - stepped
        core.handle(event, at: now)
        while core.hasWork { core.beginNext(at: now) }
        if flush { core.flush() }
        sort(core.takeActions())
    }

    func tick(after milliseconds: Int64 = 0) {
        now += milliseconds
        core.steady = now - stepped
        core.tick(at: now)
        sort(core.takeActions())
    }

    private func sort(_ actions: [CoreAction]) {
        for action in actions {
            switch action {
            case .submit(let batch, let pool): submitted.append((batch, pool))
            case .publish(let number, let messages): published.append((number, messages))
            case .publishMarker(let id, let message): markers.append((id, message))
            case .acknowledge(_, let deliveryTags): acknowledged += deliveryTags
            case .giveBack(_, let deliveryTags): givenBack += deliveryTags
            case .discard(_, let deliveryTags): discarded += deliveryTags
            case .retirePools(let numbers): retired += numbers
            case .acknowledgeControl, .reconnectControl, .reconnectPublisher, .startTaking, .stopTaking, .shutDownPools, .note:
                others.append(action)
            }
        }
    }

    /// The wall clock is set; the steady one is not.
    func setClock(by milliseconds: Int64) {
        now += milliseconds
        stepped += milliseconds
    }

    // MARK: Shorthand

    func take(_ job: PushJob, tag: UInt64 = 1, headers: [String: String] = [:]) {
        handle(.jobsReceived([Fixture.message(job, tag: tag, headers: headers)]))
    }

    /// The next batch comes back with one answer for each of its requests.
    func finishNext(_ answer: (APNsRequest) -> APNsAnswer.Result) {
        guard !submitted.isEmpty else {
            Issue.record("no batch was submitted")
            return
        }
        let batch = submitted.removeFirst().batch
        finish(batch, answer)
    }

    func finish(_ batch: APNsBatch, _ answer: (APNsRequest) -> APNsAnswer.Result) {
        handle(
            .batchFinished(
                APNsFinishedBatch(
                    batch: batch,
                    answers: batch.requests.map { APNsAnswer(index: $0.index, sentAt: now, result: answer($0)) })))
    }

    func finishNext(_ status: Int, _ reason: String? = nil, retryAfter: Duration? = nil) {
        finishNext { _ in .response(status: status, reason: reason, timestamp: nil, retryAfter: retryAfter) }
    }

    func confirmNext(_ outcome: PublishOutcome = .confirmed) { settleNext { _ in outcome } }

    func settleNext(_ outcome: (OutgoingMessage) -> PublishOutcome) {
        guard !published.isEmpty else {
            Issue.record("nothing was published")
            return
        }
        let (number, messages) = published.removeFirst()
        handle(.published(number, messages.enumerated().map { PublishAnswer(index: $0, outcome: outcome($1)) }))
    }

    /// Answers some of the next publication's messages, and leaves the others without an answer, for good.
    func settleSome(_ outcome: (OutgoingMessage) -> PublishOutcome?) {
        let (number, messages) = published.removeFirst()
        handle(
            .published(
                number,
                messages.enumerated().compactMap { index, message in
                    outcome(message).map { PublishAnswer(index: index, outcome: $0) }
                }))
    }

    /// The connection of every lane is lost.
    func loseJobs() { for lane in Lane.allCases { handle(.jobsConnection(lane, isUp: false)) } }

    /// Copies of entries of the control stream arrive.
    func hear(_ messages: [(ControlMessage, id: PushID)]) {
        handle(.controlReceived(messages.map { Fixture.control($0, offset: nil, id: $1) }))
    }

    func obey(_ messages: ControlMessage...) {
        handle(
            .controlReceived(
                messages.map { message in
                    controlOffset += 1
                    return Fixture.control(message, offset: controlOffset)
                }))
    }

    /// The control connection comes up, and the marker returns.
    func catchUp() throws {
        handle(.controlConnection(isUp: true))
        try returnMarker()
    }

    func returnMarker() throws {
        let marker = try confirmMarker()
        obey(try ControlMessage(decoding: marker.body))
    }

    func forgetMarkers() { markers = [] }

    @discardableResult
    func confirmMarker() throws -> OutgoingMessage {
        let (id, message) = try #require(markers.first)
        markers.removeFirst()
        #expect(message.routingKey == topology.controlStream)
        handle(.markerPublished(id, .confirmed))
        return message
    }

    // MARK: What was published

    var events: [OutcomeEvent] { decoded(from: topology.outcomesExchange) { try OutcomeEvent(decoding: $0.body) } }
    var deadLetters: [OutgoingMessage] { messages(to: topology.deadExchange) }

    func retries(after delay: RetryDelay? = nil) -> [PushJob] {
        let delays = delay.map { [$0] } ?? RetryDelay.allCases
        return delays.flatMap { delay in decoded(from: topology.retryExchange(delay)) { try PushJob(decoding: $0.body) } }
    }

    func messages(to exchange: String) -> [OutgoingMessage] {
        published.flatMap(\.messages).filter { $0.exchange == exchange }
    }

    private func decoded<Value>(from exchange: String, _ decode: (OutgoingMessage) throws -> Value) -> [Value] {
        messages(to: exchange).compactMap { message in
            do {
                return try decode(message)
            } catch {
                Issue.record("a message to \(exchange) cannot be decoded: \(error)")
                return nil
            }
        }
    }
}
