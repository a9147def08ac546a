import PushModel
import TestSupport

/// Draws a world's operations. The same seed draws the same ones whatever the races' results were, except for what outcomes are about.
struct OperationGenerator {
    private var random: SeededGenerator

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    /// Two to six operations to be sent at the same time.
    /// - Parameters:
    ///   - open: Deliveries to report outcomes of; those that are used are taken out.
    ///   - model: The state before the round, for moments that are close to a registration.
    ///   - now: The database's clock before the round, UNIX milliseconds.
    mutating func round(open: inout [OpenDelivery], model: RegistryModel, now: Int64) -> [RegistryOperation] {
        var operations = (0..<Int.random(in: 2...6, using: &random)).map { _ in operation(open: &open, model: model, now: now) }
        // What is in quarantine is soon registered again: such a chance is seldom let pass.
        let wants = (restore: !one(in: 4), all: one(in: 2))
        if wants.restore, let token = model.tokens.first(where: { $0?.isQuarantined == true }) ?? nil {
            operations[0] = .restore(wants.all ? nil : token.installation)
        }
        return operations
    }

    /// Whether the app's brake is engaged in the next round, and whether a token is put into quarantine before.
    mutating func brake() -> (isEngaged: Bool, doubts: Bool) { (one(in: 4), one(in: 4)) }

    private mutating func operation(open: inout [OpenDelivery], model: RegistryModel, now: Int64) -> RegistryOperation {
        // Drawn whether needed or not, so that the sequence does not depend on what is open.
        let registration = registration()
        let change = change(registration)
        let fate = fate()
        switch below(100) {
        case ..<31: return .register(registration)
        case ..<38: return .change(change)
        case ..<40: return .erase(user: below(RegistryModel.users.count))
        case ..<45: return .restore(one(in: 3) ? registration.installation : nil)
        case ..<51: return .logOut(registration.installation, expected: registration.expected)
        case ..<57: return .logOutToken(number: below(TokenName.numbers))
        case ..<63: return .logOutUser(below(RegistryModel.users.count), except: one(in: 2) ? registration.installation : nil)
        case ..<66: return .deregister(registration.installation)
        case ..<68: return .deregisterToken(number: below(TokenName.numbers))
        case ..<79: return .send(user: addressee(fate, model))
        default:
            guard !open.isEmpty else { return .register(registration) }
            return .outcome(outcome(of: open.remove(at: fate.place(in: open)), fate, model: model, now: now))
        }
    }

    private mutating func registration() -> RegistryOperation.Registration {
        var tokens: [TokenName] = []
        // Mostly the one place that everything else happens in; sometimes several, or none.
        for place in TokenName.places.indices where place == 0 ? !one(in: 10) : one(in: 5) {
            tokens.append(TokenName(number: below(TokenName.numbers), place: place))
        }
        return RegistryOperation.Registration(
            installation: below(RegistryModel.installationCount), user: user(), tokens: tokens,
            replaces: one(in: 7) ? below(TokenName.numbers) : nil, expected: one(in: 6) ? .exactly(user()) : .anyone)
    }

    private mutating func change(_ full: RegistryOperation.Registration) -> RegistryOperation.Change {
        let (changesUser, changesTokens) = (one(in: 2), one(in: 2))
        return RegistryOperation.Change(
            installation: full.installation, user: changesUser ? .some(full.user) : nil, tokens: changesTokens ? full.tokens : nil,
            replaces: full.replaces, expected: full.expected)
    }

    private mutating func user() -> Int? {
        let number = below(RegistryModel.users.count * 2 + 1)
        return number == 0 ? nil : (number - 1) / 2
    }

    private struct Fate {
        var pick: Int
        var outcome: OutcomeClass
        var moment: Int
        var isStamped: Bool
        var isContradicted: Bool

        /// Mostly one of the latest: of old ones the token has long had another holder.
        func place(in open: [OpenDelivery]) -> Int { max(0, open.count - 1 - (pick % 4 == 0 ? pick : pick % 4) % open.count) }
    }

    /// Mostly a user who is signed in somewhere, so that something is sent.
    private func addressee(_ fate: Fate, _ model: RegistryModel) -> Int {
        let owners = model.installations.compactMap { $0?.owner }
        return owners.isEmpty || fate.pick % 5 == 0 ? fate.pick % RegistryModel.users.count : owners[fate.pick % owners.count]
    }

    private mutating func fate() -> Fate {
        let classes = OutcomeClass.allCases
        let any = classes[below(classes.count)]
        let kind = below(10)
        return Fate(
            pick: below(1_000_000), outcome: kind < 3 ? .tokenGone : kind < 7 ? .tokenRejected : any, moment: below(6),
            isStamped: !one(in: 4), isContradicted: one(in: 4))
    }

    private func outcome(of delivery: OpenDelivery, _ fate: Fate, model: RegistryModel, now: Int64) -> RegistryOperation.Outcome {
        let registered = model.tokens[delivery.token.index]?.registeredAt ?? now
        let moments: [RegistryOperation.Since] = [
            .at(registered - 1), .at(registered), .at(min(registered + 1, now)), .at(now), .at(registered - 100_000), .future,
        ]
        return RegistryOperation.Outcome(
            delivery: delivery, outcome: fate.outcome, since: moments[fate.moment], isStamped: fate.isStamped,
            isContradicted: fate.isContradicted)
    }

    private mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &random) }
    private mutating func one(in count: Int) -> Bool { below(count) == 0 }
}
