import Foundation
import TestSupport
import Testing

@testable import PushClient

/// Random lives of Live Activities on 10,000 devices, against the model of the server: a push starts one while the app is dead, the app is
/// killed while one runs or ends, users sign out and the app is suspended at once, an id is used again, requests and answers are lost.
@Suite struct ActivityLivesTests {
    private static let installation = UUID()
    private static let alert = PushToken(Data([1]), purpose: .alert, environment: .production)
    private static let names: [ActivityName] = ["ride", "ride#2", "match", "ride#3"]
    private static let users = ["ada", "grace"]

    enum Step: Hashable {
        case begins(ActivityName), ends(ActivityName)
        case kill, launch, compare
        case signIn(String), signOut, deregister
        case done, doneUnheard, notDone, timeIsUp
    }

    struct World {
        var machine: RegistrationMachine
        var server = ModelServer(needsCredential: false)
        var isAlive = true
        var begun: Set<ActivityName> = []
        var running: Set<ActivityName> = []
        /// For whom the server has taken a report whose answer came.
        var reported: [ActivityName: String?] = [:]

        var steps: [Step] {
            var steps = names.filter { !begun.contains($0) }.prefix(1).map { Step.begins($0) } + running.map { .ends($0) }
            guard isAlive else { return steps + [.launch] }
            steps += users.map { .signIn($0) } + [.signOut, .deregister, .kill, .compare]
            switch machine.phase {
            case .sending: steps += [.done, .doneUnheard, .notDone]
            case .waiting: steps.append(.timeIsUp)
            case .resting, .fetching: break
            }
            return steps
        }

        mutating func take(_ step: Step) {
            switch step {
            case .begins(let name):
                begun.insert(name)
                running.insert(name)
                if isAlive { see(name) }
            case .ends(let name):
                running.remove(name)
                if isAlive { handle(.activityEnded(name)) }
            case .kill: isAlive = false
            case .launch:
                isAlive = true
                machine = RegistrationMachine(record: machine.record, credential: nil, rules: machine.rules)
                _ = machine.start()
                look(age: .zero)
                handle(.token(alert))
            case .compare: look(age: KnownActivities.loading)
            case .signIn(let user): handle(.signIn(user))
            case .signOut: handle(.signOut)
            case .deregister: handle(.deregister)
            case .done:
                let (upload, answer) = (machine.phase.upload, reach())
                if case .reportActivity(let name, _, _) = upload, case .response(200, _, _) = answer {
                    reported[name] = .some(server.rows[installation]?.owner)
                }
                handle(.answered(machine.number, answer))
            case .doneUnheard:
                _ = reach()
                handle(.answered(machine.number, .lost))
            case .notDone: handle(.answered(machine.number, .lost))
            case .timeIsUp: handle(.timeIsUp(machine.number))
            }
        }

        /// As the adaptor does at launch, and whenever the app is opened.
        private mutating func look(age: Duration) {
            let listed = names.filter { running.contains($0) }
            for name in listed { see(name) }
            handle(.activities(listed, type: "Ride", age: age))
        }

        private mutating func see(_ name: ActivityName) {
            handle(.activity(name, token(of: name)))
        }

        private func token(of name: ActivityName) -> ActivityToken {
            ActivityToken(Data(name.instance.utf8), environment: .production, attributesType: "Ride")
        }

        private mutating func handle(_ event: RegistrationMachine.Event) { _ = machine.handle(event, random: 0.5) }

        private mutating func reach() -> RegistrationMachine.Answer {
            guard case .sending(let upload) = machine.phase else { return .lost }
            return server.handle(ModelServer.Call(installation: installation, upload: upload, credential: nil))
        }

        /// From here on all goes well: the pushes by which the server ends activities take them off the screen, and the server comes to
        /// have the activities that run, and no others.
        func converges() -> Bool {
            var world = self
            if !world.isAlive { world.take(.launch) }
            world.take(.compare)
            for _ in 0..<20 {
                switch world.machine.phase {
                case .sending: world.take(.done)
                case .waiting: world.take(.timeIsUp)
                case .fetching: return false
                case .resting:
                    guard let ended = world.endedByServer else { return world.isConverged }
                    world.take(.ends(ended))
                }
            }
            return false
        }

        /// An activity that runs, and that the server has ended: when its user left, or when the app said that one of the id is over.
        private var endedByServer: ActivityName? {
            let retired = server.rows[installation]?.retired ?? []
            return names.first { running.contains($0) && retired.contains(token(of: $0).hex) }
        }

        private var isConverged: Bool {
            let user = machine.record.desired.user
            guard machine.record.desired.presence != .deregistered, let row = server.rows[installation] else {
                return machine.record.desired.presence == .deregistered && server.rows[installation]?.activities.isEmpty != false
            }
            var wanted: [String: String] = [:]
            for name in names where running.contains(name) && reported[name, default: user] == user {
                wanted[name.id] = token(of: name).hex
            }
            return row.owner == user && row.activities == wanted
        }
    }

    @Test func everyDeviceConverges() throws {
        let seed = drawSeed(of: "activities of 10,000 devices")
        var random = SeededGenerator(seed: seed)
        for _ in 0..<10_000 {
            var world = World(
                machine: RegistrationMachine(
                    record: RegistrationRecord(installation: Self.installation, server: .new), credential: nil,
                    rules: RegistrationMachine.Rules()))
            world.take(.launch)
            world.take(.signIn("ada"))
            var path: [Step] = []
            for _ in 0..<Int.random(in: 1...30, using: &random) {
                guard let step = world.steps.randomElement(using: &random) else { break }
                path.append(step)
                world.take(step)
            }
            let hasConverged = world.converges()
            try #require(hasConverged, "seed \(seed): \(path); \(world.machine.record) \(world.server)")
        }
    }
}
