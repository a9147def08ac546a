import ChaosChecking
import ChaosLedger
import PushModel

/// Ledgers that a test makes up. Moments are milliseconds since the run began.
struct Story: LedgerSource {
    static let beginning: Int64 = 1_800_000_000_000_000

    var record: RunRecord
    var faultList: [FaultRecord] = []
    var deviceList: [DeviceRecord] = []
    var clientList: [ClientRecord] = []
    var pushList: [Push] = []
    var reportedList: [ReportedRecord] = []
    var sampleList: [SampleRecord] = []
    var shownList: [ShownRecord] = []

    init() {
        record = RunRecord(
            seed: 1, size: "small", commit: "test", command: "test", beganAt: Self.beginning, inFlightBound: 3,
            memory: [.init(process: "dispatcher", bytes: 100 << 20)],
            apps: [
                .init(slug: "shop", bundleID: "com.example.shop", tokenPrefix: "a1", isSingle: false),
                .init(slug: "bank", bundleID: "com.example.bank", tokenPrefix: "a2", isSingle: true),
            ])
        record.drainedAt = Self.moment(300_000)
        record.endedAt = Self.moment(300_000)
    }

    static func moment(_ milliseconds: Int64) -> Int64 { beginning + milliseconds * 1000 }

    // MARK: As the checker reads them

    func run() -> RunRecord { record }
    func faults(_ body: (FaultRecord) -> Void) { faultList.forEach(body) }
    func devices(_ body: (DeviceRecord) -> Void) { deviceList.forEach(body) }
    func clients(_ body: (ClientRecord) -> Void) { clientList.forEach(body) }
    func pushes(_ body: (Push) -> Void) { pushList.sorted { $0.time < $1.time }.forEach(body) }
    func reported(_ body: (ReportedRecord) -> Void) { reportedList.forEach(body) }
    func shown(_ body: (ShownRecord) -> Void) { shownList.forEach(body) }
    func samples(_ body: (SampleRecord) -> Void) { sampleList.forEach(body) }

    func judge() throws -> Verdict { try Checker.judge(self).verdict }

    // MARK: Names

    static func installation(_ device: Int) -> PushID { PushID(high: 0x1000, low: UInt64(device)) }
    static func token(_ device: Int, _ app: String = "shop") -> DeviceToken {
        DeviceToken(bytes: [app == "bank" ? 0xa2 : 0xa1, 0, 0, UInt8(device >> 16 & 0xff), UInt8(device >> 8 & 0xff), UInt8(device & 0xff)]
        )!
    }
    static func notification(_ marker: Int64) -> PushID { PushID(high: 0x2000, low: UInt64(marker)) }
    static func delivery(_ marker: Int64, _ device: Int) -> PushID { PushID(high: UInt64(marker) << 20 | 0x7000, low: UInt64(device)) }

    // MARK: What clients ask

    /// Appends a request that was sent at that moment.
    /// - Parameter status: nil for no answer, which the client waited for five seconds for.
    @discardableResult
    mutating func ask(
        _ kind: ClientRecord.Kind, at sent: Int64, took: Int64 = 10, status: Int? = 200, app: String = "shop",
        _ fill: (inout ClientRecord) -> Void
    ) -> Int64 {
        var record = ClientRecord(id: Int64(clientList.count + 1), kind: kind, app: app, sentAt: Self.moment(sent))
        record.status = status
        if status == 429 || status == 503 { record.retryAfter = 1 }
        if status == nil { record.gaveUpAt = Self.moment(sent + 5000) } else { record.answeredAt = Self.moment(sent + took) }
        fill(&record)
        clientList.append(record)
        return record.id
    }

    @discardableResult
    mutating func register(
        _ user: String?, _ device: Int, token: Int? = nil, at sent: Int64, took: Int64 = 10, status: Int? = 200, app: String = "shop",
        fence: ClientRecord.Fence? = nil
    ) -> Int64 {
        ask(.register, at: sent, took: took, status: status, app: app) { record in
            record.user = user
            record.fence = fence
            record.installation = Self.installation(device)
            record.tokens = [Self.token(token ?? device, app)]
        }
    }

    @discardableResult
    mutating func logout(_ device: Int, at sent: Int64, status: Int? = 200, fence: ClientRecord.Fence? = .effective) -> Int64 {
        ask(.logout, at: sent, status: status) { record in
            record.installation = Self.installation(device)
            record.fence = fence
        }
    }

    @discardableResult
    mutating func send(
        _ marker: Int64, to user: String, at sent: Int64, took: Int64 = 10, status: Int? = 202, app: String = "shop",
        _ fill: (inout ClientRecord) -> Void = { _ in }
    ) -> Int64 {
        ask(.send, at: sent, took: took, status: status, app: app) { record in
            record.target = .user
            record.user = user
            record.marker = marker
            record.key = "key-\(marker)"
            if let status, (200..<300).contains(status) { record.notification = Self.notification(marker) }
            fill(&record)
        }
    }

    @discardableResult
    mutating func cancel(_ marker: Int64, at sent: Int64, status: Int? = 200, fence: ClientRecord.Fence? = .effective) -> Int64 {
        ask(.cancel, at: sent, status: status) { record in
            record.notification = Self.notification(marker)
            record.fence = fence
        }
    }

    // MARK: What APNs sees, what is done, what is reported

    mutating func push(
        _ marker: Int64, _ device: Int, at time: Int64, fate: Push.Fate = .accepted, timestamp: Int64? = nil, app: String = "shop"
    ) {
        pushList.append(
            Push(
                time: Self.moment(time), connection: 1, token: Self.token(device, app), id: Self.delivery(marker, device),
                topic: "com.example.\(app)", marker: marker, fate: fate, timestamp: timestamp.map(Self.moment)))
    }

    mutating func fault(
        _ kind: FaultRecord.Kind, _ target: String, lane: Lane? = nil, from: Int64, to: Int64? = nil, recovered: Int64? = nil
    ) {
        var fault = FaultRecord(id: Int64(faultList.count + 1), kind: kind, target: target, beganAt: Self.moment(from))
        fault.endedAt = to.map(Self.moment)
        fault.recoveredAt = (recovered ?? to).map(Self.moment)
        fault.lane = lane
        faultList.append(fault)
    }

    mutating func flood(at time: Int64, shed: Int, unsent: Int = 0, longest: Int64 = 10) {
        sampleList.append(.flood(.init(at: Self.moment(time), shed: shed, unsent: unsent, longest: longest * 1000)))
    }

    mutating func report(
        _ marker: Int64, _ outcomes: [(device: Int, outcome: OutcomeClass)], state: ReportedNotification.State = .completed,
        pending: Int = 0,
        hasAllReceipts: Bool = true, app: String = "shop"
    ) {
        let counts = OutcomeClass.allCases.compactMap { outcome -> ReportedCount? in
            let count = outcomes.count { $0.outcome == outcome }
            return count == 0 ? nil : ReportedCount(outcome, count)
        }
        let waiting = (0..<pending).map { ReportedDelivery(id: Self.delivery(marker, 900 + $0), outcome: nil, attempts: 0) }
        let deliveries = outcomes.filter { hasAllReceipts || $0.outcome != .accepted }.map { device, outcome in
            ReportedDelivery(id: Self.delivery(marker, device), installation: Self.installation(device), outcome: outcome)
        }
        reportedList.append(
            .notification(
                ReportedNotification(
                    app: app, id: Self.notification(marker), state: state, hasAllReceipts: hasAllReceipts, total: outcomes.count + pending,
                    pending: pending, counts: counts, deliveries: deliveries + waiting, isComplete: true)))
    }

    /// Ada has device 1, Bob device 2, and each has got one notification.
    static var ordinary: Story {
        var story = Story()
        story.register("ada", 1, at: 1000)
        story.register("bob", 2, at: 1100)
        story.send(1, to: "ada", at: 5000)
        story.push(1, 1, at: 5050)
        story.report(1, [(1, .accepted)])
        story.send(2, to: "bob", at: 6000)
        story.push(2, 2, at: 6050)
        story.report(2, [(2, .accepted)])
        return story
    }
}
