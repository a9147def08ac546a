import Foundation
import TestSupport
import Testing

@testable import PushClient

/// Random lives of many devices on one server: launches, kills at every step, reinstalls, restores of older and of other devices' backups,
/// moves to a new phone, weeks without network, shared users, lost and late requests. At the end the server has what each device wants.
/// The machine gets no date, so changes of the date are in `DateChangeTests`, on the client that has the clock.
@Suite struct DeviceLivesTests {
    @Test(arguments: [false, true])
    func everyDeviceConverges(needsCredential: Bool) throws {
        let seed = drawSeed(of: "lives of 5,000 devices, credentials: \(needsCredential)")
        var random = SeededGenerator(seed: seed)
        var world = DeviceWorld(needsCredential: needsCredential)
        for _ in 0..<500 {
            // A neighbourhood of ten devices that share users and hand tokens on: ten thousand devices in both cases.
            var devices = try (0..<10).map { _ in try LivingDevice(in: &world) }
            for _ in 0..<1_000 {
                let index = Int.random(in: devices.indices, using: &random)
                let other = devices[Int.random(in: devices.indices, using: &random)]
                if let sold = try devices[index].live(in: &world, random: &random, other: other) { devices.append(sold) }
            }
            world.deliverLate()
            for index in devices.indices { try devices[index].rest(in: &world) }
            for device in devices {
                let agrees = world.agrees(with: device)
                try #require(
                    agrees && device.machine.isUploaded, "seed \(seed): \(device.machine.record) and \(world.server.rows[device.id] as Any)"
                )
            }
            try #require(world.leaks == [], "seed \(seed)")
            world.forget(devices.map(\.id))
        }
        print("requests: \(world.requests), late: \(world.lateRequests), refused late: \(world.refusedLate)")
        #expect(world.refusedLate > 0 || !needsCredential)
    }
}

/// The server, and the network in front of it.
struct DeviceWorld {
    var server: ModelServer
    /// Requests whose sender has given up, and which the server gets later.
    var late: [ModelServer.Call] = []
    /// Users whose sign-out the server has accepted, until they sign in there again.
    var signedOut: [UUID: Set<String>] = [:]
    /// Who is signed in on the device itself.
    var wanted: [UUID: String] = [:]
    var leaks: [String] = []
    var requests = 0
    var lateRequests = 0
    var refusedLate = 0
    private var made = 0

    init(needsCredential: Bool) {
        server = ModelServer(needsCredential: needsCredential)
    }

    mutating func serial() -> Int {
        made += 1
        return made
    }

    mutating func handle(_ call: ModelServer.Call) -> RegistrationMachine.Answer {
        requests += 1
        let before = server.rows[call.installation]?.owner
        let answer = server.handle(call)
        if call.upload.operation == .signOut, case .response(200, _, _) = answer, let before, wanted[call.installation] != before {
            signedOut[call.installation, default: []].insert(before)
        }
        if let owner = server.rows[call.installation]?.owner, owner != before, signedOut[call.installation]?.contains(owner) == true {
            leaks.append("\(call.upload.operation) signs \(owner) in again")
        }
        return answer
    }

    mutating func deliverLate() {
        let calls = late
        late = []
        for call in calls {
            lateRequests += 1
            if case .response(400..., _, _) = handle(call) { refusedLate += 1 }
        }
    }

    mutating func forget(_ installations: [UUID]) {
        for installation in installations { (signedOut[installation], wanted[installation]) = (nil, nil) }
        server.rows = [:]
        server.credentials = [:]
        server.expired = []
    }

    func agrees(with device: LivingDevice) -> Bool {
        let row = server.rows[device.id].flatMap { $0.isRegistered ? $0 : nil }
        let desired = device.machine.record.desired
        let token = PushToken(device.token, purpose: .alert, environment: .production)
        switch desired.presence {
        case .signedIn(let user): return row?.owner == user && row?.tokens == [token] && row?.profile == desired.profile
        case .signedOut: return row?.owner == nil && row?.tokens == [token] && row?.profile == desired.profile
        case .deregistered: return row == nil
        }
    }
}

/// One device: its stores, the process of the app, and what the device's Apple gives it.
struct LivingDevice {
    private(set) var machine: RegistrationMachine
    private(set) var token: Data
    private var keychain = MemoryStore()
    private var files = MemoryStore()
    private var isCredentialed: Bool
    private var sending: (Upload, DeviceCredential?, Int)?
    private var backup: (keychain: MemoryStore, files: MemoryStore)?

    var id: UUID { machine.record.installation }

    init(in world: inout DeviceWorld, token: Data? = nil) throws {
        isCredentialed = world.server.needsCredential
        self.token = token ?? Self.newToken(in: &world)
        machine = try Self.opened(keychain, files, isCredentialed)
        perform(machine.start())
    }

    /// One step of its life.
    ///
    /// - Returns: The old phone of a person who moved to a new one: another person has it now.
    mutating func live(in world: inout DeviceWorld, random: inout SeededGenerator, other: LivingDevice) throws -> LivingDevice? {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<8: signIn(["ada", "grace", "alan"].randomElement(using: &random) ?? "ada", in: &world)
        case 8..<16:
            world.wanted[id] = nil
            handle(.signOut)
        case 16..<18:
            world.wanted[id] = nil
            handle(.deregister)
        case 18..<28: handle(.token(PushToken(token, purpose: .alert, environment: .production)))
        case 28..<29: handle(.tokenFailed(.alert))
        case 29..<30: handle(.noToken(.alert))
        case 30..<36: handle(.retryNow)
        case 36..<40: handle(.profile(PushProfile(appTags: ["t\(Int.random(in: 0..<3, using: &random))"], permission: .authorized)))
        case 40..<48: try launch()
        case 48..<50:
            // A reinstall: the keychain stays, the files and the token go.
            files = MemoryStore()
            world.wanted[id] = nil
            token = Self.newToken(in: &world)
            try launch()
        case 50..<51:
            // A restore of another device's backup: its files come here, its keychain does not.
            files = other.files.copy()
            try restored(in: &world)
        case 55..<56:
            // A reinstall that lost its id, and to which Apple gives the old token again.
            (keychain, files) = (MemoryStore(), MemoryStore())
            try launch()
        case 51..<53:
            if let held = machine.credential { world.server.expired.insert(held.credential.credential) }
        case 53..<55: world.deliverLate()
        case 56..<58: backup = (keychain.copy(), files.copy())
        case 58..<61:
            // An older backup of this same device. Only an encrypted one has the keychain's items.
            guard let backup else { break }
            files = backup.files.copy()
            if Bool.random(using: &random) { keychain = backup.keychain.copy() }
            try restored(in: &world)
        case 61..<62:
            // A move to a new phone: the installation id comes along. The old phone is wiped, and Apple gives it the old token again.
            let sold = try LivingDevice(in: &world, token: token)
            token = Self.newToken(in: &world)
            try launch()
            return sold
        case 62..<63: try beOffline(in: &world, random: &random)
        default: goOn(in: &world, random: &random)
        }
        return nil
    }

    /// Weeks without network: the person uses the app all the same, and credentials and the token go meanwhile.
    private mutating func beOffline(in world: inout DeviceWorld, random: inout SeededGenerator) throws {
        for _ in 0..<Int.random(in: 1...30, using: &random) {
            switch Int.random(in: 0..<6, using: &random) {
            case 0: signIn(["ada", "grace", "alan"].randomElement(using: &random) ?? "ada", in: &world)
            case 1:
                world.wanted[id] = nil
                handle(.signOut)
            case 2: try launch()
            case 3: handle(.token(PushToken(token, purpose: .alert, environment: .production)))
            default:
                switch machine.phase {
                case .resting: break
                case .waiting: handle(.timeIsUp(machine.number))
                case .fetching: handle(.credential(machine.number, .failed))
                case .sending: handle(.answered(machine.number, .lost))
                }
            }
        }
        if let held = machine.credential { world.server.expired.insert(held.credential.credential) }
        token = Self.newToken(in: &world)
    }

    /// The app starts on what a backup had. The app's session of then is here again.
    private mutating func restored(in world: inout DeviceWorld) throws {
        token = Self.newToken(in: &world)
        try launch()
        world.wanted[id] = machine.record.desired.user
        machine.record.desired.user.map { _ = world.signedOut[id]?.remove($0) }
    }

    /// All goes well from here on.
    mutating func rest(in world: inout DeviceWorld) throws {
        try launch()
        handle(.token(PushToken(token, purpose: .alert, environment: .production)))
        for _ in 0..<40 {
            switch machine.phase {
            case .resting where machine.isRefused: handle(.retryNow)
            case .resting: return
            case .waiting: handle(.timeIsUp(machine.number))
            case .fetching(let user): grant(user, in: &world)
            case .sending: answer(isHeard: true, in: &world)
            }
        }
    }

    /// The network's and the server's next move.
    private mutating func goOn(in world: inout DeviceWorld, random: inout SeededGenerator) {
        switch machine.phase {
        case .resting: break
        case .waiting: handle(.timeIsUp(machine.number))
        case .fetching(let user):
            switch Int.random(in: 0..<4, using: &random) {
            case 0: handle(.credential(machine.number, .failed))
            case 1 where machine.record.desired.user != user: handle(.credential(machine.number, .refused))
            default: grant(user, in: &world)
            }
        case .sending:
            switch Int.random(in: 0..<10, using: &random) {
            case 0: handle(.answered(machine.number, .lost))
            case 1: answer(isHeard: false, in: &world)
            case 2: handle(.answered(machine.number, .response(status: 429, code: "rate_limited", retryAfter: .seconds(1))))
            case 3 where isCredentialed:
                // It comes when its sender has long given up. Without credentials, the app's backend must refuse it.
                if let sending {
                    world.late.append(ModelServer.Call(installation: id, upload: sending.0, credential: sending.1?.credential))
                }
                handle(.timeIsUp(machine.number))
            default: answer(isHeard: true, in: &world)
            }
        }
    }

    private mutating func signIn(_ user: String, in world: inout DeviceWorld) {
        world.signedOut[id]?.remove(user)
        world.wanted[id] = user
        handle(.signIn(user))
    }

    private mutating func grant(_ user: String?, in world: inout DeviceWorld) {
        let credential = "psd_\(world.serial())"
        world.server.makeCredential(credential, installation: id, user: user)
        handle(.credential(machine.number, .granted(DeviceCredential(credential))))
    }

    private mutating func answer(isHeard: Bool, in world: inout DeviceWorld) {
        guard let (upload, credential, number) = sending else { return }
        let answer = world.handle(ModelServer.Call(installation: id, upload: upload, credential: credential?.credential))
        handle(.answered(number, isHeard ? answer : .lost))
    }

    private mutating func handle(_ event: RegistrationMachine.Event) {
        perform(machine.handle(event, random: 0.5))
    }

    private mutating func perform(_ actions: [RegistrationMachine.Action]) {
        try? machine.save(RegistrationMachine.items(of: actions), to: SplitPushStore(secrets: keychain, rest: files))
        for case .send(let upload, let credential, let number) in actions { sending = (upload, credential, number) }
    }

    /// The app is killed and started again.
    private mutating func launch() throws {
        sending = nil
        machine = try Self.opened(keychain, files, isCredentialed)
        perform(machine.start())
    }

    private static func opened(_ keychain: MemoryStore, _ files: MemoryStore, _ isCredentialed: Bool) throws -> RegistrationMachine {
        let store = SplitPushStore(secrets: keychain, rest: files)
        let server: PushServer = isCredentialed ? .tokenService(NoTransport(), credentials: NoTransport()) : .backend(NoTransport())
        return try RegistrationMachine(PushConfiguration(app: "shop", environment: .production, server: server, store: store))
    }

    private static func newToken(in world: inout DeviceWorld) -> Data {
        withUnsafeBytes(of: world.serial().bigEndian) { Data($0) }
    }
}
