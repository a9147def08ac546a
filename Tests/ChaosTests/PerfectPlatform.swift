import ChaosChecking
import ChaosLedger
import PushModel
import TestSupport

/// A platform that keeps every promise, and the ledgers of a run of it: random requests with and without answers, and pushes that are late,
/// refused, silent or repeated if a fault allows it. The checker must find nothing.
struct PerfectPlatform {
    struct Device {
        var installation: Int
        var token: Int
        let app: String
        var user: String?
        var epoch: Int64 = 0
        /// When the last change was answered. Earlier decided pushes may come a second later.
        var changedAt: Int64 = 0
        var registeredAt: Int64 = 0
        var uninstalledAt: Int64?
        var isAlive = false
    }

    struct Delivery {
        let marker: Int64
        let device: Int
        let token: Int
        let installation: Int
        let epoch: Int64
        let app: String
        var due: Int64
        var outcome: OutcomeClass?
        var lastPush: Int64?
    }

    struct Notification {
        let app: String
        var expiresAt: Int64?
        var cancelledAt: Int64?
    }

    private static let users = ["ada", "bob", "eve", "kim"]

    var random: SeededGenerator
    private(set) var story = Story()
    private var now: Int64 = 1000
    private var devices: [Device] = []
    private var nextToken = 100
    private var nextInstallation = 100
    private var nextMarker: Int64 = 1
    private(set) var deliveries: [Delivery] = []
    private var open: [Int] = []
    private(set) var notifications: [Int64: Notification] = [:]
    private let isFaulty: Bool

    /// - Parameter isFaulty: Dispatchers are killed, answers are lost, APNs keeps silent.
    init(seed: UInt64, isFaulty: Bool) {
        random = SeededGenerator(seed: seed)
        self.isFaulty = isFaulty
        story.record.inFlightBound = 1000
        for number in 0..<8 {
            devices.append(Device(installation: number + 1, token: number + 1, app: number % 3 == 0 ? "bank" : "shop"))
        }
        for device in devices.indices { register(device, user: Self.users[device % 4], isSure: true) }
        for _ in 0..<60 { step() }
        now += 60_000
        settle()
        report()
    }

    private mutating func step() {
        now += random.number(20...1500)
        settle()
        let device = Int.random(in: devices.indices, using: &random)
        switch Int.random(in: 0..<14, using: &random) {
        case 0...5: send()
        case 6: register(device, user: devices[device].user ?? "ada")
        case 7: register(device, user: Self.users.randomElement(using: &random) ?? "ada")
        case 8: logout(device)
        case 9: changeToken(device)
        case 10: changeInstallation(device)
        case 11: uninstall(device)
        case 12: cancel()
        default: if isFaulty { kill() }
        }
    }

    private mutating func exchange() -> (sent: Int64, took: Int64, isAnswered: Bool) {
        let sent = now - random.number(1...40)
        return (sent, now - sent + random.number(1...40), !isFaulty || !random.chance(0.06))
    }

    /// - Parameter isSure: The platform carries it out, whether it answers or not.
    private mutating func register(_ index: Int, user: String?, isSure: Bool = false) {
        // A user who deleted the app comes back with another token.
        let isBack = devices[index].uninstalledAt != nil
        if isBack { renewToken(index) }
        let (sent, took, isAnswered) = exchange()
        let isDone = isAnswered || isSure || isBack || random.chance(0.5)
        let device = devices[index]
        story.register(
            user, device.installation, token: device.token, at: sent, took: took, status: isAnswered ? 200 : nil, app: device.app)
        guard isDone else { return }
        // The checker may not count on an unanswered request.
        let end = isAnswered ? sent + took : Int64.max
        change(index, user, end)
        devices[index].registeredAt = now
        devices[index].isAlive = true
        guard device.app == "bank", let user else { return }
        for other in devices.indices where other != index && devices[other].app == "bank" {
            change(other, devices[other].user == user ? nil : devices[other].user, end)
        }
    }

    private mutating func change(_ index: Int, _ user: String?, _ answered: Int64) {
        guard devices[index].user != user else {
            // An unanswered earlier change is certain now.
            devices[index].changedAt = min(devices[index].changedAt, answered)
            return
        }
        devices[index].user = user
        devices[index].epoch += 1
        devices[index].changedAt = answered
    }

    private mutating func logout(_ index: Int) {
        let (sent, took, isAnswered) = exchange()
        let isDone = isAnswered || random.chance(0.5)
        let (device, isByToken) = (devices[index], random.chance(0.4))
        story.ask(.logout, at: sent, took: took, status: isAnswered ? 200 : nil, app: device.app) { record in
            record.tokens = isByToken ? [Story.token(device.token, device.app)] : []
            record.installation = isByToken ? nil : Story.installation(device.installation)
        }
        if isDone { change(index, nil, isAnswered ? sent + took : .max) }
    }

    private mutating func renewToken(_ index: Int) {
        nextToken += 1
        devices[index].token = nextToken
        devices[index].uninstalledAt = nil
    }

    private mutating func changeToken(_ index: Int) {
        renewToken(index)
        register(index, user: devices[index].user, isSure: true)
    }

    /// The token moves to another installation. If the user changes, the old one is fenced.
    private mutating func changeInstallation(_ index: Int) {
        guard devices[index].uninstalledAt == nil else { return changeToken(index) }
        nextInstallation += 1
        devices[index].installation = nextInstallation
        register(index, user: random.chance(0.5) ? devices[index].user : Self.users.randomElement(using: &random), isSure: true)
    }

    private mutating func uninstall(_ index: Int) {
        guard devices[index].uninstalledAt == nil else { return changeToken(index) }
        devices[index].uninstalledAt = now
        story.deviceList.append(
            DeviceRecord(token: Story.token(devices[index].token, devices[index].app), event: .uninstall, at: Story.moment(now)))
    }

    private mutating func kill() {
        story.fault(.kill, "dispatcher-\(random.number(1...3))", from: now, to: now, recovered: now + 1500)
        for index in deliveries.indices {
            // A push that was just sent and not settled may come again.
            guard let last = deliveries[index].lastPush, now - last < 2000, deliveries[index].outcome == .accepted, random.chance(0.5)
            else { continue }
            deliveries[index].due = now + random.number(1...800)
            deliveries[index].outcome = nil
            open.append(index)
        }
    }

    private mutating func send() {
        let marker = nextMarker
        nextMarker += 1
        let app = random.chance(0.3) ? "bank" : "shop"
        let user = Self.users.randomElement(using: &random) ?? "ada"
        let (sent, took, isAnswered) = exchange()
        let expiry = random.chance(0.2) ? now + random.number(500...4000) : nil
        func fill(_ record: inout ClientRecord) { record.expiresAt = expiry.map(Story.moment) }
        story.send(marker, to: user, at: sent, took: took, status: isAnswered ? 202 : nil, app: app, fill)
        let isRepeated = !isAnswered || random.chance(0.2)
        if isRepeated { story.send(marker, to: user, at: sent + 6000, took: 20, app: app, fill) }
        notifications[marker] = Notification(app: app, expiresAt: expiry)
        for (index, device) in devices.enumerated() where device.app == app && device.user == user && device.isAlive {
            open.append(deliveries.count)
            deliveries.append(
                Delivery(
                    marker: marker, device: index, token: device.token, installation: device.installation, epoch: device.epoch, app: app,
                    due: now + random.number(1...(random.chance(0.2) ? 6000 : 200))))
        }
    }

    private mutating func cancel() {
        guard let marker = notifications.keys.sorted().last else { return }
        let (sent, took, _) = exchange()
        story.cancel(marker, at: sent)
        story.clientList[story.clientList.count - 1].answeredAt = Story.moment(sent + took)
        let first = notifications[marker]?.cancelledAt ?? sent + took
        notifications[marker]?.cancelledAt = first
    }

    private mutating func settle() {
        while let index = open.filter({ deliveries[$0].due <= now }).min(by: { deliveries[$0].due < deliveries[$1].due }) {
            open.removeAll { $0 == index }
            attempt(index)
        }
    }

    private mutating func attempt(_ index: Int) {
        let delivery = deliveries[index]
        let device = devices[delivery.device]
        if let stopped = stop(delivery, device) {
            // Also a push that APNs took before the kill, whose answer is lost.
            deliveries[index].outcome = stopped
            return
        }
        let isGone = delivery.token == device.token && device.uninstalledAt.map { $0 <= delivery.due } ?? false
        if isGone, let moment = device.uninstalledAt {
            push(delivery, .refused(410), moment)
            deliveries[index].outcome = .tokenGone
            if device.registeredAt <= moment, device.isAlive { retire(delivery, moment) }
        } else if random.chance(0.1) {
            push(delivery, .refused(random.chance(0.5) ? 429 : 503))
            again(index)
        } else if isFaulty, random.chance(0.03) {
            push(delivery, .unanswered)
            again(index)
        } else {
            push(delivery, .accepted)
            deliveries[index].outcome = .accepted
            deliveries[index].lastPush = delivery.due
        }
    }

    private mutating func stop(_ delivery: Delivery, _ device: Device) -> OutcomeClass? {
        let notification = notifications[delivery.marker]
        if let expiry = notification?.expiresAt, delivery.due > expiry { return .expired }
        if let cancelled = notification?.cancelledAt, delivery.due > cancelled { return .cancelled }
        // Another installation of the same user ends the first under the `single` policy, unless it took the token with it.
        let isSuperseded = delivery.app == "bank" && delivery.installation != device.installation && delivery.token != device.token
        if isSuperseded { return .fenced }
        guard device.epoch != delivery.epoch else { return nil }
        // A fence may take a second from its answer on.
        let isInTime = device.epoch == delivery.epoch + 1 && (device.changedAt == .max || delivery.due <= device.changedAt + 1000)
        return isInTime && random.chance(0.5) ? nil : .fenced
    }

    private mutating func again(_ index: Int) {
        deliveries[index].due += random.number(300...2000)
        open.append(index)
    }

    private mutating func push(_ delivery: Delivery, _ fate: Push.Fate, _ timestamp: Int64? = nil) {
        story.pushList.append(
            Push(
                time: Story.moment(delivery.due), token: Story.token(delivery.token, delivery.app),
                id: Story.delivery(delivery.marker, delivery.token), topic: "com.example.\(delivery.app)", marker: delivery.marker,
                fate: fate,
                timestamp: timestamp.map(Story.moment)))
    }

    private mutating func retire(_ delivery: Delivery, _ moment: Int64) {
        devices[delivery.device].isAlive = false
        story.reportedList.append(
            .retirement(
                ReportedRetirement(
                    app: delivery.app, installation: Story.installation(devices[delivery.device].installation),
                    hint: Story.token(delivery.token, delivery.app).hint, reason: "Unregistered", status: 410,
                    apnsTimestamp: Story.moment(moment),
                    delivery: Story.delivery(delivery.marker, delivery.token), at: Story.moment(delivery.due + 5))))
    }

    private mutating func report() {
        for (marker, notification) in notifications.sorted(by: { $0.key < $1.key }) {
            let own = deliveries.filter { $0.marker == marker }
            let counts = OutcomeClass.allCases.compactMap { outcome -> ReportedCount? in
                let count = own.count { $0.outcome == outcome }
                return count == 0 ? nil : ReportedCount(outcome, count)
            }
            let receipts = own.map { delivery in
                ReportedDelivery(
                    id: Story.delivery(marker, delivery.token), installation: Story.installation(delivery.installation),
                    outcome: delivery.outcome)
            }
            story.reportedList.append(
                .notification(
                    ReportedNotification(
                        app: notification.app, id: Story.notification(marker), state: own.isEmpty ? .noTargets : .completed,
                        hasAllReceipts: true, total: own.count, pending: 0, counts: counts, deliveries: receipts, isComplete: true)))
        }
        for device in devices {
            story.reportedList.append(
                .installation(
                    ReportedInstallation(
                        app: device.app, id: Story.installation(device.installation), isRegistered: true, user: device.user,
                        epoch: device.epoch,
                        tokens: [ReportedToken(token: Story.token(device.token, device.app), isActive: device.isAlive, reason: "gone")])))
        }
    }
}

extension SeededGenerator {
    mutating func number(_ range: ClosedRange<Int64>) -> Int64 { Int64.random(in: range, using: &self) }
}
