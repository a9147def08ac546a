import ChaosLedger
import PushModel

/// One record of each kind, with every field.
enum Samples {
    static let token = DeviceToken(hex: "00aa11bb")!
    static let id = PushID(high: 1, low: 2)

    static let run: RunRecord = {
        var run = RunRecord(
            seed: 42, size: "small", scenario: "soak", commit: "0068c5f", command: "deploy/chaos", beganAt: 1, inFlightBound: 500,
            memory: [.init(process: "dispatcher", bytes: 64 << 20)],
            apps: [.init(slug: "shop", bundleID: "com.example.shop", tokenPrefix: "a0", isSingle: true)])
        (run.drainedAt, run.endedAt, run.deliberateFault, run.connectionsPerSecond) = (2, 3, "no-fence", 20)
        run.emptyAtRest = ["unpublished jobs"]
        (run.answerWithin, run.judgesRefusals, run.grace, run.recovery, run.settling, run.lateness) = (4, true, 5, 6, 7, 8)
        return run
    }()

    static let clients: [ClientRecord] =
        ClientRecord.Kind.allCases.enumerated().map { index, kind in
            var client = ClientRecord(id: Int64(index), kind: kind, app: "shop", sentAt: 10)
            (client.answeredAt, client.status, client.gaveUpAt, client.retryAfter) = (11, 202, 12, 1)
            (client.user, client.users, client.installation, client.except) = ("ada \"1\"", ["a", "b"], id, id)
            (client.tokens, client.target, client.tags, client.lane) = ([token], .tags, "a AND b", .bulk)
            (client.key, client.notBefore, client.expiresAt, client.marker) = ("key", 13, 14, 15)
            (client.startTokens, client.activity, client.event, client.timestamp) = ([token], "ride", .end, 17)
            (client.service, client.ttlSeconds) = ("token-service-1", 60)
            (client.epoch, client.fence, client.notification, client.hold) = (16, .pending, id, id)
            return client
        } + [ClientRecord(id: 99, kind: .read, app: nil, sentAt: 1)]

    static let faults: [FaultRecord] = FaultRecord.Kind.allCases.enumerated().map { index, kind in
        var fault = FaultRecord(id: Int64(index), kind: kind, target: "dispatcher-1", process: 7, beganAt: 1)
        if index.isMultiple(of: 2) { (fault.endedAt, fault.recoveredAt, fault.lane, fault.detail) = (2, 3, .bulk, "SIGKILL") }
        return fault
    }

    static let shown = ShownRecord.State.allCases.map { state in
        ShownRecord(
            app: "shop", installation: id, activity: "ride", state: state, marker: state == .ended ? nil : 1, isSwiped: state == .stale)
    }

    static let samples: [SampleRecord] = [
        .process(.init(at: 1, name: "dispatcher-1", id: 2, memory: 3, descriptors: 4, clients: 2, threads: 5, isReady: true)),
        .queue(.init(at: 1, name: "push.jobs.now", depth: 2)),
        .load(.init(at: 1, answered: 2, accepted: 3, refused: 4, pushes: 5)),
        .flood(.init(at: 1, shed: 2, unsent: 3, longest: 4)),
        .wire(.init(at: 1, name: "token-service-1>postgres", connections: 2, inClear: 3)),
        .table(.init(at: 1, name: "unpublished jobs", rows: 2, bytes: 3)),
    ]

    static let reported: [ReportedRecord] = [
        .notification(
            ReportedNotification(
                app: "shop", id: id, state: .noTargets, hasAllReceipts: false, total: 3, pending: 1,
                counts: [.init(.accepted, 1), .init(.tokenGone, 1)],
                deliveries: [.init(id: id, installation: id, outcome: .tokenGone, attempts: 2), .init(id: id, outcome: nil, attempts: 0)],
                isComplete: true)),
        .installation(
            ReportedInstallation(
                app: "shop", id: id, isRegistered: true, user: "ada", epoch: 3,
                tokens: [
                    .init(token: token, isActive: false, reason: "gone", registeredAt: 1, retiredAt: 2),
                    .init(token: token, isActive: true),
                ])),
        .installation(ReportedInstallation(app: "shop", id: id, isRegistered: false, user: nil, epoch: nil, tokens: [])),
        .retirement(
            ReportedRetirement(
                app: "shop", installation: id, hint: "…aa11bb", reason: "gone", status: 410, apnsTimestamp: 4, delivery: id, at: 5)),
    ]
}
