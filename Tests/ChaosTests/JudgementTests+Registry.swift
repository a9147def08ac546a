import ChaosChecking
import ChaosLedger
import PushModel
import Testing

@Suite("The checker compares the API's final answers with everything else", .timeLimit(.minutes(5)))
struct ReportedJudgementTests {
    private func judge(_ change: (inout Story) -> Void) throws -> [Promise: Int] {
        var story = Story.ordinary
        change(&story)
        return try story.judge().counts
    }

    @Test("Counters, receipts and APNs agree") func counters() throws {
        func change(_ body: (inout ReportedNotification) -> Void) throws -> [Promise: Int] {
            try judge { story in
                guard case .notification(var reported) = story.reportedList[0] else { return }
                body(&reported)
                story.reportedList[0] = .notification(reported)
            }
        }
        #expect(try change { $0.total = 2 }[.counters] != nil)
        #expect(try change { $0.counts = [.init(.accepted, 2)] }[.counters] != nil)
        #expect(try change { $0.counts = [.init(.tokenGone, 1)] }[.counters] != nil)
        #expect(try change { $0.deliveries = [] }[.counters] != nil)
        #expect(try change { $0.isComplete = false } == [:])
        // APNs accepted a push that the API reports with another outcome.
        #expect(
            try change { reported in
                reported.counts = [.init(.unknown, 1)]
                reported.deliveries[0].outcome = .unknown
            }[.counters] == 1)
    }

    @Test("An unknown outcome is right where the connection was lost") func unknownOutcome() throws {
        #expect(
            try judge { story in
                story.fault(.reset, "dispatcher>apns", from: 7060, to: 7061)
                story.send(3, to: "ada", at: 7000)
                story.push(3, 1, at: 7050)
                story.report(3, [(1, .unknown)])
            } == [:])
    }

    // MARK: Retirements

    /// Device 1 was uninstalled at one moment, and APNs said so at another.
    private func retired(
        _ story: inout Story, uninstalled: Int64 = 6500, answered: Int64 = 7050, reason: String = "Unregistered", status: Int? = 410
    ) {
        story.deviceList.append(DeviceRecord(token: Story.token(1), event: .uninstall, at: Story.moment(uninstalled)))
        story.send(3, to: "ada", at: 7000)
        story.push(3, 1, at: answered, fate: .refused(410), timestamp: uninstalled)
        story.report(3, [(1, .tokenGone)])
        story.reportedList.append(
            .retirement(
                ReportedRetirement(
                    app: "shop", installation: Story.installation(1), hint: Story.token(1).hint, reason: reason, status: status,
                    apnsTimestamp: status == 410 ? Story.moment(uninstalled) : nil, delivery: Story.delivery(3, 1),
                    at: Story.moment(answered + 100))))
    }

    private func end(_ story: inout Story, isActive: Bool, reason: String? = "gone") {
        story.reportedList.append(
            .installation(
                ReportedInstallation(
                    app: "shop", id: Story.installation(1), isRegistered: true, user: "ada", epoch: 1,
                    tokens: [ReportedToken(token: Story.token(1), isActive: isActive, reason: isActive ? nil : reason)])))
    }

    @Test("Only APNs' answer about this registration retires a token") func retirements() throws {
        #expect(
            try judge {
                retired(&$0); end(&$0, isActive: false)
            } == [:])
        // Registered again between the uninstallation and the retirement.
        #expect(
            try judge { story in
                story.register("ada", 1, at: 6700)
                retired(&story)
                end(&story, isActive: true)
            } == [.wronglyRetired: 1])
        // Registered while APNs was answering: either order is right.
        #expect(
            try judge { story in
                story.register("ada", 1, at: 7040, took: 200)
                retired(&story)
                end(&story, isActive: true)
            } == [:])
        // Registered again later, and dead in the end.
        #expect(
            try judge { story in
                retired(&story)
                story.register("ada", 1, at: 9000)
                end(&story, isActive: false)
            } == [.wronglyRetired: 1])
        // APNs spoke of another moment.
        #expect(
            try judge { story in
                retired(&story)
                story.pushList[2].timestamp = Story.moment(6400)
            } == [.wronglyRetired: 1])
        // APNs never spoke.
        #expect(try judge { end(&$0, isActive: false) } == [.wronglyRetired: 1])
        #expect(try judge { end(&$0, isActive: false, reason: "replaced") } == [:])
        #expect(try judge { retired(&$0, reason: "BadDeviceToken", status: 400) } == [.wronglyRetired: 1])
    }

    // MARK: Owners

    @Test("A token is at one installation and ends with an owner that a request named") func ownership() throws {
        func reported(_ device: Int, _ user: String?) -> ReportedRecord {
            .installation(
                ReportedInstallation(
                    app: "shop", id: Story.installation(device), isRegistered: true, user: user, epoch: 1,
                    tokens: [ReportedToken(token: Story.token(1), isActive: true)]))
        }
        #expect(try judge { $0.reportedList.append(reported(1, "ada")) } == [:])
        #expect(try judge { $0.reportedList += [reported(1, "ada"), reported(2, "bob")] } == [.ownership: 1])
        #expect(try judge { $0.reportedList.append(reported(1, "bob")) } == [.ownership: 1])
        #expect(
            try judge {
                $0.logout(1, at: 7000); $0.reportedList.append(reported(1, "ada"))
            } == [.ownership: 1])
        #expect(
            try judge {
                $0.logout(1, at: 7000, status: nil); $0.reportedList.append(reported(1, "ada"))
            } == [:])
        #expect(
            try judge {
                $0.logout(1, at: 7000); $0.reportedList.append(reported(1, nil))
            } == [:])
    }

    @Test("Epochs never go down") func epochs() throws {
        func findings(_ first: Int64, _ second: Int64, gap: Int64) throws -> [Promise: Int] {
            try judge { story in
                for (number, epoch) in [first, second].enumerated() {
                    story.register("ada", 1, at: 7000 + Int64(number) * gap)
                    story.clientList[story.clientList.count - 1].epoch = epoch
                }
            }
        }
        #expect(try findings(3, 4, gap: 100) == [:])
        #expect(try findings(4, 4, gap: 100) == [:])
        #expect(try findings(4, 3, gap: 100) == [.ownership: 1])
        // At the same time.
        #expect(try findings(4, 3, gap: 5) == [:])
    }

    // MARK: Processes

    @Test("The checker finds a process above its limit") func memory() throws {
        func findings(_ name: String, _ bytes: Int64) throws -> [Promise: Int] {
            try judge { story in
                story.sampleList.append(
                    .process(.init(at: Story.moment(1), name: name, id: 1, memory: bytes, descriptors: 1, threads: 1, isReady: true)))
            }
        }
        #expect(try findings("dispatcher-2", 101 << 20) == [.memory: 1])
        #expect(try findings("dispatcher-2", 100 << 20) == [:])
        #expect(try findings("postgres", 101 << 20) == [:])
    }

    @Test("The checker finds a process that grows over a quarter of an hour, and not one that is sometimes busy") func growth() throws {
        func findings(
            _ memory: (Int64) -> Int64 = { _ in 20 << 20 }, descriptors: (Int64) -> Int = { _ in 30 }, clients: (Int64) -> Int = { _ in 0 },
            threads: (Int64) -> Int = { _ in 20 }
        ) throws -> [Promise: Int] {
            try judge { story in
                for second in stride(from: Int64(0), to: 900, by: 5) {
                    story.sampleList.append(
                        .process(
                            .init(
                                at: Story.moment(second * 1000), name: "dispatcher-1", id: 1, memory: memory(second),
                                descriptors: descriptors(second), clients: clients(second), threads: threads(second), isReady: true)))
                }
            }
        }
        #expect(try findings { (20 << 20) + $0 * (2 << 20) / 60 } == [.growth: 1])
        #expect(try findings { (20 << 20) + $0 * (1 << 19) / 60 } == [:])
        #expect(try findings { $0.isMultiple(of: 15) ? 60 << 20 : 20 << 20 } == [:])
        #expect(try findings(threads: { 20 + Int($0) / 100 }) == [.growth: 1])
        #expect(try findings(threads: { 20 + Int($0) / 300 }).isEmpty)
        #expect(try findings(descriptors: { 30 + Int($0) / 20 }) == [.growth: 1])
        // Clients decide about their open connections.
        #expect(try findings(descriptors: { 30 + Int($0) / 20 }, clients: { Int($0) / 20 }) == [:])
    }

    @Test("The checker finds a table that grows without rows or keeps finished work; rows may take their space") func tables() throws {
        func findings(rows: (Int64) -> Int64, bytes: (Int64) -> Int64) throws -> [Promise: Int] {
            try judge { story in
                for minute in Int64(0)..<16 {
                    story.sampleList.append(
                        .table(.init(at: Story.moment(minute * 60_000), name: "receipts", rows: rows(minute), bytes: bytes(minute))))
                }
            }
        }
        #expect(try findings(rows: { 1000 * ($0 + 1) }, bytes: { (1 << 20) * ($0 + 1) }) == [:])
        #expect(try findings(rows: { _ in 1000 }, bytes: { (4 << 20) * ($0 + 1) }) == [.tables: 1])
        #expect(try findings(rows: { 1000 + $0 }, bytes: { (1 << 20) * (1 << min($0, 12)) }) == [.tables: 1])
        #expect(try findings(rows: { $0 % 2 * 50 }, bytes: { _ in 6 << 20 }) == [:])
    }

    @Test("No job is unpublished in the end") func emptyAtRest() throws {
        func findings(_ rows: Int64, at moment: Int64) throws -> [Promise: Int] {
            try judge { story in
                story.record.emptyAtRest = ["unpublished jobs"]
                story.record.drainedAt = Story.moment(90_000)
                story.sampleList.append(.table(.init(at: Story.moment(moment), name: "unpublished jobs", rows: rows, bytes: 1)))
                story.sampleList.append(.table(.init(at: Story.moment(moment), name: "notifications", rows: 7, bytes: 1)))
            }
        }
        #expect(try findings(1, at: 95_000) == [.tables: 1])
        #expect(try findings(0, at: 95_000) == [:])
        #expect(try findings(1, at: 80_000) == [:])
    }

    @Test("The checker finds a storm of connections if the run judges it") func connections() throws {
        func findings(limit: Int?) throws -> [Promise: Int] {
            try judge { story in
                story.record.connectionsPerSecond = limit
                story.pushList[1].connection = 12
            }
        }
        #expect(try findings(limit: 10) == [.connections: 1])
        #expect(try findings(limit: 11) == [:])
        #expect(try findings(limit: nil) == [:])
    }

    @Test("The checker finds an internal error during any fault") func internalErrors() throws {
        func findings(_ status: Int) throws -> [Promise: Int] {
            try judge { story in
                story.fault(.kill, "postgres", from: 49_000, to: 49_000, recovered: 51_000)
                story.ask(.read, at: 50_000, status: status) { _ in }
            }
        }
        #expect(try findings(500) == [.internalErrors: 1])
        #expect(try findings(503) == [:])
    }

    @Test("The checker finds refusals outside faults, and slow answers, if the run judges them") func refusals() throws {
        func findings(judged: Bool, fault: Int64) throws -> [Promise: Int] {
            try judge { story in
                story.record.judgesRefusals = judged
                story.fault(.kill, "postgres", from: fault, to: fault, recovered: fault + 1000)
                story.ask(.read, at: 50_000, status: 503) { _ in }
            }
        }
        #expect(try findings(judged: true, fault: 20_000) == [.refusals: 1])
        #expect(try findings(judged: true, fault: 44_500) == [:])
        #expect(try findings(judged: true, fault: 50_020) == [.refusals: 1])
        #expect(try findings(judged: false, fault: 20_000) == [:])
        #expect(
            try judge { story in
                story.record.answerWithin = 20_000_000
                story.ask(.read, at: 50_000, took: 20_001) { _ in }
            } == [.slowAnswers: 1])
    }
}
