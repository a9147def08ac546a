import APNs
import Broker
import PushModel
import SystemIO

/// The pool of an app's topic in an environment, and the numbers of apps in this process.
///
/// An app keeps its number when credentials change, and has one before any credential names it: a fence must hold for it then, too.
struct CredentialDirectory: Sendable {
    typealias AppIndex = ControlState.AppIndex

    fileprivate struct Place: Sendable {
        /// The pool of the credential that names no topics.
        var general: PoolNumber?
        var byTopic: [String: PoolNumber] = [:]

        func pool(_ topic: String) -> PoolNumber? {
            byTopic.isEmpty ? general : byTopic[topic] ?? general
        }

        /// A credential for certain topics serves the channels of an app if it has the app's topic of Live Activities, or its bundle id.
        func channelPool(_ bundleID: String) -> PoolNumber? {
            byTopic[PushType.liveactivity.topic(bundleID: bundleID)] ?? pool(bundleID)
        }
    }

    private struct Places: Sendable {
        var production = Place()
        var sandbox = Place()
        var isServed: Bool {
            production.general != nil || sandbox.general != nil || !production.byTopic.isEmpty || !sandbox.byTopic.isEmpty
        }
    }

    /// Apps beyond the number that sixteen bits hold. Their jobs wait.
    static let unknownApp = AppIndex.max

    private(set) var pools: [CredentialPlan.Pool] = []
    private var indices: [AppSlug: AppIndex] = [:]
    private var places: [Places] = []

    init(_ file: CredentialsFile) { self.init(CredentialPlan(file)) }

    init(_ plan: CredentialPlan) { adopt(plan) }

    /// From now on these pools serve.
    /// - Returns: the numbers of those that no longer do.
    @discardableResult
    mutating func adopt(_ plan: CredentialPlan) -> [PoolNumber] {
        let retired = Set(pools.map(\.number)).subtracting(plan.numbers).sorted()
        pools = plan.pools
        places = Array(repeating: Places(), count: places.count)
        for pool in plan.pools {
            for app in pool.entry.apps {
                let index = Int(number(of: app))
                guard index < places.count else { continue }
                switch pool.environment {
                case .production: places[index].production.add(pool)
                case .sandbox: places[index].sandbox.add(pool)
                }
            }
        }
        return retired
    }

    /// The app's number: a new one, where it has none yet.
    mutating func number(of app: AppSlug) -> AppIndex {
        if let index = indices[app] { return index }
        guard places.count < Int(Self.unknownApp) else { return Self.unknownApp }
        let index = AppIndex(places.count)
        indices[app] = index
        places.append(Places())
        return index
    }

    /// The number of the app that a message's header names. All headers without an app share one number.
    mutating func number(of header: String?) -> AppIndex { header.flatMap { AppSlug($0) }.map { number(of: $0) } ?? Self.unknownApp }

    mutating func numbered(_ scope: HoldScope) -> HoldBook.Scope {
        switch scope {
        case .everything: .everything
        case .lane(let lane): .lane(lane)
        case .app(let app): .app(number(of: app))
        case .appLane(let app, let lane): .appLane(number(of: app), lane)
        case .notification(let app, let notification): .notification(number(of: app), notification)
        }
    }

    /// Some credential names the app.
    func serves(_ app: AppSlug) -> Bool {
        indices[app].map { places[Int($0)].isServed } ?? false
    }

    func pool(app: AppIndex, _ environment: APNsEnvironment, topic: String) -> PoolNumber? {
        place(app, environment)?.pool(topic)
    }

    /// Finds the pool for broadcasts, and the management of channels.
    func channelPool(app: AppIndex, _ environment: APNsEnvironment, bundleID: String) -> PoolNumber? {
        place(app, environment)?.channelPool(bundleID)
    }

    private func place(_ app: AppIndex, _ environment: APNsEnvironment) -> Place? {
        guard Int(app) < places.count else { return nil }
        return switch environment {
        case .production: places[Int(app)].production
        case .sandbox: places[Int(app)].sandbox
        }
    }
}

extension CredentialDirectory.Place {
    fileprivate mutating func add(_ pool: CredentialPlan.Pool) {
        if pool.entry.topics.isEmpty { general = pool.number }
        for topic in pool.entry.topics { byTopic[topic] = pool.number }
    }
}

/// Names one pool of this process; never used twice, so that a request for an old pool cannot reach a new one.
typealias PoolNumber = Int

/// The pools that a credentials file asks for. A pool is one credential in one environment.
struct CredentialPlan: Sendable {
    struct Pool: Sendable {
        let number: PoolNumber
        let environment: APNsEnvironment
        let entry: CredentialsEntry

        var credential: APNsCredential { entry.credential }
    }

    let pools: [Pool]
    private let nextNumber: PoolNumber

    /// - Parameter previous: The plan whose unchanged pools stay, under their numbers.
    init(_ file: CredentialsFile, after previous: CredentialPlan? = nil) {
        var next = previous?.nextNumber ?? 0
        pools = file.entries.flatMap { entry in
            entry.environments.map { environment in
                let known = previous?.pools.first { $0.environment == environment && $0.entry.isSame(as: entry) }
                defer { if known == nil { next += 1 } }
                return Pool(number: known?.number ?? next, environment: environment, entry: entry)
            }
        }
        nextNumber = next
    }

    var numbers: Set<PoolNumber> { Set(pools.map(\.number)) }
}

extension CredentialsEntry {
    fileprivate func isSame(as other: CredentialsEntry) -> Bool {
        credential.name == other.credential.name && digest == other.digest
    }
}

/// Reports to the token service for which apps this process has credentials, and which of them APNs refuses: after every change, and every
/// minute, so that another report soon follows a lost one.
struct CredentialReporter: Sendable {
    private static let interval: Duration = .seconds(60)

    let table: PoolTable
    let publisher: Publisher
    let topology: Topology
    let source: String
    private var last: (credentials: [CredentialReport.Credential], at: ContinuousClock.Instant)?

    init(table: PoolTable, publisher: Publisher, topology: Topology, source: String) {
        self.table = table
        self.publisher = publisher
        self.topology = topology
        self.source = source
    }

    /// Publishes a report if one is due. While the broker is away it makes none, because old reports would wait for it. If the broker does
    /// not confirm one in time, the next call makes it again.
    mutating func report() async {
        guard publisher.state == .ready else { return last = nil }
        let credentials = table.serving.map(\.reported)
        if let last, last.credentials == credentials, ContinuousClock.now - last.at < Self.interval { return }
        let now = WallClock.milliseconds()
        let report = CredentialReport(id: .timeOrdered(milliseconds: now), source: source, time: now, credentials: credentials)
        let message = OutgoingMessage(
            exchange: topology.outcomesExchange, routingKey: CredentialReport.routingKey, messageID: report.id,
            contentType: CredentialReport.contentType, body: report.encoded())
        let answers = await publisher.publish([message], deadline: .seconds(5))
        last = answers == [.confirmed] ? (credentials, .now) : nil
    }
}

extension PoolTable.Serving {
    fileprivate var reported: CredentialReport.Credential {
        let refusal = all.lazy.compactMap { if case .paused(let reason) = $0.pool.state { reason } else { nil } }.first
        let (kind, id): (CredentialReport.Credential.Kind, String) =
            switch plan.credential.kind {
            case .token(_, let keyID, _): (.key, keyID)
            case .certificate: (.certificate, plan.credential.name)
            }
        return .init(kind: kind, id: id, environment: plan.environment, apps: plan.entry.apps, refusal: refusal)
    }
}
