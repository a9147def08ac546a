import Foundation
import Testing

@testable import PushClient

/// Every order of what can happen to one installation, against the model of the server.
@Suite struct RegistrationExplorationTests {
    static let installation = UUID()
    static let token = PushToken(Data([1]), purpose: .alert, environment: .production)

    /// What can happen next. A kill may come at any of these points, because each is one step.
    enum Step: Hashable {
        case token, tokenFailed, noToken, signIn(String), signOut, deregister, retryNow, timeIsUp, kill
        case done, doneUnheard, notDone
        case credential(RegistrationMachine.CredentialAnswer)
        case credentialExpires
    }

    struct World: Hashable {
        struct Key: Hashable {
            var record: RegistrationRecord
            var credential: HeldCredential?
            var phase: RegistrationMachine.Phase
            var hasToken: Bool
            var hasFailed: Bool
            var isAbsent: Bool
            var stated: Upload.TokenList?
            var isRefused: Bool
            var isOutdated: Bool
            var before: ServerBelief?
            var hasRenewed: Bool
            var row: ModelServer.Row?
            /// Owner epochs since the held credential was made, and whether it has expired.
            var age: Int?
            var isExpired: Bool
        }

        var machine: RegistrationMachine
        var server: ModelServer
        var users = ["ada", "grace"]

        /// Without what grows for ever and decides nothing: numbers and delays.
        var key: Key {
            var isSending = false
            if case .sending = machine.phase { isSending = true }
            // Of epochs only the distance counts, and of credentials only the one that the client holds.
            var row = server.rows[installation]
            let held = machine.credential?.credential.credential
            let age = held.flatMap { server.credentials[$0] }.map { min(2, (row?.epoch ?? 0) - $0.epoch) }
            row?.epoch = 0
            if row?.isRegistered == false { row = nil }
            return Key(
                record: machine.record, credential: machine.credential, phase: machine.phase, hasToken: !machine.tokens.isEmpty,
                hasFailed: !machine.failed.isEmpty, isAbsent: !machine.absent.isEmpty, stated: machine.stated, isRefused: machine.isRefused,
                isOutdated: machine.phase != .resting && (machine.isOvertaken || machine.hasNewSession),
                before: isSending ? machine.beliefBefore : nil, hasRenewed: machine.hasRenewed, row: row, age: age,
                isExpired: held.map { server.expired.contains($0) } ?? false)
        }

        static func == (left: World, right: World) -> Bool { left.key == right.key }
        func hash(into hasher: inout Hasher) { hasher.combine(key) }

        var steps: [Step] {
            var steps: [Step] = users.map { .signIn($0) } + [.token, .tokenFailed, .noToken, .signOut, .deregister, .retryNow, .kill]
            switch machine.phase {
            case .resting: break
            case .sending: steps += [.done, .doneUnheard, .notDone]
            case .fetching: steps += [.credential(.granted(DeviceCredential(""))), .credential(.refused), .credential(.failed)]
            case .waiting: steps.append(.timeIsUp)
            }
            if let held = machine.credential, !server.expired.contains(held.credential.credential) { steps.append(.credentialExpires) }
            return steps
        }

        mutating func take(_ step: Step) {
            switch step {
            case .token: handle(.token(token))
            case .tokenFailed: handle(.tokenFailed(.alert))
            case .noToken: handle(.noToken(.alert))
            case .signIn(let user): handle(.signIn(user))
            case .signOut: handle(.signOut)
            case .deregister: handle(.deregister)
            case .retryNow: handle(.retryNow)
            case .timeIsUp: handle(.timeIsUp(machine.number))
            case .kill:
                machine = RegistrationMachine(record: machine.record, credential: machine.credential, rules: machine.rules)
                _ = machine.start()
            case .done: handle(.answered(machine.number, reach()))
            case .doneUnheard:
                _ = reach()
                handle(.answered(machine.number, .lost))
            case .notDone: handle(.answered(machine.number, .lost))
            case .credential(.granted):
                guard case .fetching(let user) = machine.phase else { return }
                let text = user ?? "no user"
                server.makeCredential(text, installation: installation, user: user)
                handle(.credential(machine.number, .granted(DeviceCredential(text))))
            case .credential(let answer): handle(.credential(machine.number, answer))
            case .credentialExpires: machine.credential.map { _ = server.expired.insert($0.credential.credential) }
            }
        }

        private mutating func handle(_ event: RegistrationMachine.Event) { _ = machine.handle(event, random: 0.5) }

        private mutating func reach() -> RegistrationMachine.Answer {
            guard case .sending(let upload) = machine.phase else { return .lost }
            return server.handle(
                ModelServer.Call(installation: installation, upload: upload, credential: machine.credential?.credential.credential))
        }

        /// The server's row is one of those that the client holds possible.
        var isBeliefTrue: Bool {
            let belief = machine.record.server
            let row = server.rows[installation].flatMap { $0.isRegistered ? $0 : nil }
            if let owners = belief.owners, !owners.contains(row?.owner) { return false }
            if let confirmed = belief.confirmed, confirmed != row.map({ Claim(user: $0.owner, profile: $0.profile) }) { return false }
            switch belief.existence {
            case .absent: return row == nil
            case .registered: return row != nil
            case .unknown: return true
            }
        }

        /// From here on all goes well: does the server come to have what the app wants?
        func converges() -> Bool {
            var world = self
            for _ in 0..<40 {
                switch world.machine.phase {
                case .sending: world.take(.done)
                case .fetching: world.take(.credential(.granted(DeviceCredential(""))))
                case .waiting: world.take(.timeIsUp)
                case .resting:
                    if world.machine.tokens.isEmpty {
                        world.take(.token)
                    } else if world.machine.isRefused {
                        world.take(.retryNow)
                    } else {
                        return world.isConverged
                    }
                }
            }
            return false
        }

        private var isConverged: Bool {
            let row = server.rows[installation].flatMap { $0.isRegistered ? $0 : nil }
            switch machine.record.desired.presence {
            case .signedIn(let user): return row?.owner == user && row?.tokens == [token]
            case .signedOut: return row?.owner == nil && row?.tokens == [token]
            case .deregistered: return row == nil
            }
        }
    }

    @Test(arguments: [false, true], [ServerBelief.new, .lost])
    func everyOrderConverges(needsCredential: Bool, belief: ServerBelief) throws {
        var rules = RegistrationMachine.Rules()
        rules.needsCredential = needsCredential
        var server = ModelServer(needsCredential: needsCredential)
        if belief == .lost {
            server.rows[Self.installation] = ModelServer.Row(isRegistered: true, owner: "ada", epoch: 1)
        }
        var credential: HeldCredential?
        if belief == .lost, needsCredential {
            // The keychain outlives a reinstall.
            credential = HeldCredential(user: "ada", credential: DeviceCredential("ada"))
            server.makeCredential("ada", installation: Self.installation, user: "ada")
        }
        var first = World(
            machine: RegistrationMachine(
                record: RegistrationRecord(installation: Self.installation, server: belief), credential: credential, rules: rules),
            server: server)
        // With a second user, this largest case alone takes half a minute.
        if belief == .lost, needsCredential { first.users = ["ada"] }
        _ = first.machine.start()

        var paths: [World.Key: (World.Key, Step)?] = [first.key: nil]
        var found = [first]
        var fault: (World, String)?
        while let world = found.popLast(), fault == nil {
            if !world.isBeliefTrue { fault = (world, "the client holds the server's state for impossible") }
            if !world.converges() { fault = (world, "the server never gets what the app wants") }
            for step in world.steps {
                var next = world
                next.take(step)
                let key = next.key
                guard paths[key] == nil else { continue }
                paths[key] = .some((world.key, step))
                found.append(next)
            }
        }
        if let (world, text) = fault {
            var path: [String] = []
            var key = world.key
            while let (earlier, step) = paths[key] ?? nil {
                path.append("\(step)")
                key = earlier
            }
            Issue.record(
                "\(text), after: \(path.reversed().joined(separator: ", ")); \(world.machine.record) \(world.machine.phase) \(world.server)"
            )
        }
        print("explored \(paths.count) states, credentials: \(needsCredential), state of the server: \(belief.existence)")
        #expect(paths.count > 100)
    }
}
