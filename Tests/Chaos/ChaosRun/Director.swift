import AsyncHTTPClient
import ChaosLedger
import Foundation
import PushAPI
import PushModel
import StrictJSON
import Synchronization
import TestSupport

/// One run from its beginning to its end: start, register, load and faults, drain, read back, stop. The checker judges the promises.
struct Director: Sendable {
    let settings: RunSettings
    private let http: HTTPClient
    private let caller: PushAPI
    private let tally = Tally()

    init(_ settings: RunSettings) {
        self.settings = settings
        http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: .ofChaos)
        caller = .ofChaos(http)
    }

    func run() async throws {
        let ledgers = try Ledgers(RunFolder(settings.folder))
        var run = Self.record(settings)
        try ledgers.folder.writeRun(run)
        try FileManager.default.createDirectory(atPath: settings.logFolder, withIntermediateDirectories: true)
        try writeCredentials()
        say(
            """
            ==> Starting PostgreSQL, RabbitMQ, the simulator, \(Platform.tokenServices) token services and \(Platform.dispatchers) \
            dispatchers
            """
        )
        let platform = try await Platform(settings)
        let result: Result<Int64, any Error>
        do {
            try await platform.startServices(caller)
            result = .success(try await direct(platform, ledgers))
        } catch { result = .failure(error) }
        say("==> Stopping everything")
        // In its own task, because this one may have been cancelled, and stopping takes waiting.
        let late = await Task { await platform.stop() }.value
        for name in late { say("    \(name) did not stop within its time and was killed") }
        try await http.shutdown()
        run.drainedAt = try result.get()
        run.endedAt = now()
        try ledgers.check()
        try ledgers.folder.writeRun(run)
    }

    /// - Returns: when the last notification was terminal, or the wait for that was given up.
    private func direct(_ platform: Platform, _ ledgers: Ledgers) async throws -> Int64 {
        let random = SeededGenerator(seed: settings.seed)
        let client = Client(
            caller: caller, ledgers: ledgers, tally: tally, apps: try await makeApps(platform.tokenServices[0].url),
            services: platform.tokenServices.map { ($0.program.name, $0.clientURL) }, simulatorURL: platform.simulatorURL)
        let load = LoadGenerator(
            client: client, fleet: LoadGenerator.makeFleet(settings, random.branch(1)), settings: settings, random: random.branch(2))
        say("==> Registering \(load.fleet.count) devices")
        try await load.registerAll()
        let activities = ActivityLoad(client: client, settings: settings, random: random.branch(4))
        try await activities.prepare()
        let plan = FaultPlan(settings.size, only: settings.only, random: random.branch(3))
        let injector = FaultInjector(platform: platform, ledgers: ledgers, caller: caller, load: load)
        let sampler = Sampler(platform: platform, ledgers: ledgers, caller: caller, tally: tally)
        say("==> \(settings.size.notifications) notifications, \(plan.entries.count) faults, seed \(settings.seed)")
        let progress = Progress(
            tally: tally, sampler: sampler, injector: injector, planned: plan.entries.count, wanted: settings.size.notifications)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await sampler.run() }
            group.addTask { try await sampler.watchTables() }
            group.addTask { try await progress.run() }
            group.addTask { await activities.live() }
            try await bombard(load, activities, injector, plan, ledgers, platform)
            let drained = try await drain(platform, activities)
            group.cancelAll()
            // Cancellation ends these tasks.
            while case .failure? = await group.nextResult() {}
            try await readBack(
                client, load.fleet.everyInstallation + activities.phones.map { ($0.app, $0.installation) }, platform, ledgers)
            try await activities.readBack()
            sampler.noteWires()
            try await sampler.noteTables()
            return drained
        }
    }

    /// Load and faults at the same time. The load goes on until there was enough of both.
    private func bombard(
        _ load: LoadGenerator, _ activities: ActivityLoad, _ injector: FaultInjector, _ plan: FaultPlan, _ ledgers: Ledgers,
        _ platform: Platform
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await load.run() }
            group.addTask { await activities.run() }
            do {
                try await injector.run(plan)
                while !load.hasSentEnough {
                    try ledgers.check()
                    guard platform.simulator.starts == 1 else { throw ChaosError("the simulator died:\n\(platform.simulator.lastWords)") }
                    try await Task.sleep(for: .milliseconds(100))
                }
            } catch {
                group.cancelAll()
                throw error
            }
            load.end()
            activities.end()
            try await group.waitForAll()
        }
    }

    /// Asks the database, as an operator would, how many notifications are not terminal. The run reads the API afterwards.
    private func drain(_ platform: Platform, _ activities: ActivityLoad) async throws -> Int64 {
        say("==> Waiting until every notification has come to its end")
        let deadline = ContinuousClock.now + settings.size.drain
        while ContinuousClock.now < deadline {
            let number = try await notificationsUnderWay(platform)
            // A report may make a notification that ends the activity, so the order of the three looks matters.
            if number == "0", await activities.isAtRest(), try await notificationsUnderWay(platform) == "0" { return now() }
            say("    \(number) are under way")
            try await Task.sleep(for: .seconds(2))
        }
        say("    gave up waiting after \(settings.size.drain)")
        return now()
    }

    private func notificationsUnderWay(_ platform: Platform) async throws -> String {
        try await platform.database.query(
            "SELECT count(*) FROM notifications WHERE state NOT IN ('completed', 'cancelled', 'expired', 'no_targets') OR pending > 0"
        ).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    private func readBack(
        _ client: Client, _ installations: [(app: Int, id: PushID)], _ platform: Platform, _ ledgers: Ledgers
    ) async throws {
        say("==> Reading back what the API says")
        let count = Atomic(0)
        let reading = ReadBack(client: client, service: platform.tokenServices[0].url, ledgers: ledgers) { more in
            let (old, new) = count.add(more, ordering: .relaxed)
            if old / 20_000 != new / 20_000 { say("    \(new)") }
        }
        try await reading.run(installations: installations)
    }

    // MARK: Preparing

    private static func record(_ settings: RunSettings) -> RunRecord {
        var run = RunRecord(
            seed: Int64(bitPattern: settings.seed), size: settings.size.name, commit: settings.commit, command: settings.command,
            beganAt: now(),
            inFlightBound: RunSettings.inFlightBound,
            memory: [
                .init(process: "dispatcher", bytes: RunSettings.memoryLimitBytes),
                .init(process: "token-service", bytes: RunSettings.memoryLimitBytes),
            ],
            apps: ChaosApp.all.map {
                .init(slug: $0.slug, bundleID: $0.bundleID, tokenPrefix: $0.tokenPrefix, isSingle: $0.policy == "single")
            })
        run.deliberateFault = settings.deliberateFault.values.first
        run.grace = RunSettings.graceMicroseconds
        run.emptyAtRest = [Sampler.unpublishedJobs]
        if settings.size.sequence != nil { run.scenario = settings.size.name }
        run.resumeWithin = settings.size.resumeWithin.map { Int64($0 / .microseconds(1)) }
        run.connectionsPerSecond = settings.size.connectionsPerSecond
        if settings.size.judgesAnswers {
            run.judgesRefusals = true
            run.answerWithin = Int64(settings.size.answerWithin / .microseconds(1))
        }
        return run
    }

    /// One key for every app, as `make-credentials.sh` made it.
    private func writeCredentials() throws {
        let apps = ChaosApp.all.map { "\"\($0.slug)\"" }.joined(separator: ",")
        let text = """
            {"v":1,"credentials":[{"name":"demo","team_id":"TEAM123456","key_id":"DEMO123456","key_file":"AuthKey_DEMO123456.p8",\
            "environments":["production","sandbox"],"apps":[\(apps)]}]}
            """
        try Data(text.utf8).write(to: URL(filePath: "\(settings.credentialsFolder)/credentials.json"))
    }

    private func makeApps(_ url: String) async throws -> [ChaosApp] {
        let text = try String(contentsOfFile: "\(settings.folder)/admin.key", encoding: .utf8)
        let admin = caller.other(baseURL: url, key: text.trimmingCharacters(in: .whitespacesAndNewlines))
        var apps = ChaosApp.all
        for index in apps.indices {
            let app = apps[index]
            try await admin.post("/v1/admin/apps") { body in
                body.field("slug", app.slug)
                body.field("bundle_id", app.bundleID)
                body.field("device_policy", app.policy)
                body.field("environments", [app.environment])
                if settings.size.phonesPerApp > 0, let seconds = app.activityWindow { body.field("activity_window_seconds", seconds) }
            }
            let made = try await admin.post("/v1/admin/keys") { body in
                body.field("app", app.slug)
                body.field("name", "chaos")
                body.field("scopes", ["devices", "send", "read", "admin"])
            }
            apps[index].key = made["key"]?.stringValue ?? ""
        }
        return apps
    }
}
