/// Looks for an order in which a round's operations, one after another, would have given what was seen.
///
/// Not permutation by permutation: what can be reached by any order of a part of the operations is worked out once, so a round of six
/// takes at most 64 such parts instead of 720 orders. An operation that is no single moment is several, which follow one another.
struct Linearization {
    /// An operation that was answered.
    struct Step: Sendable {
        var operation: RegistryOperation
        /// What the operation calls itself in an installation's profile.
        var tag: String
        var answer: RegistryAnswer
        /// What the service stamped a registration with: of two for one installation, the earlier comes first.
        var registeredAt: Int64?
        /// All but the last were answered 503: of an operation in several parts, some may have been done.
        var attempts = 1
        /// How many pages the erased user's history has.
        var historyPages = 1
    }

    let steps: [Step]
    /// By step, the value of one of its moments in the number of a state that is on the way.
    private let strides: [Int]
    private let all: Int
    /// What was sent to them may be gone at any moment of the round.
    private let erased: Set<Int>

    init(steps: [Step]) {
        self.steps = steps
        var strides: [Int] = []
        var product = 1
        for step in steps {
            strides.append(product)
            product *= step.moments + 1
        }
        self.strides = strides
        all = product - 1
        erased = Set(
            steps.compactMap { step in
                if case .erase(let user) = step.operation { user } else { nil }
            })
    }

    /// Every model that some order of all steps leads to, each step answering as it did, and that looks like the end that was seen.
    func ends(from starts: Set<RegistryModel>, seen: RegistryModel) -> Set<RegistryModel> {
        reachable(from: starts).filter { $0.looks(like: seen) }
    }

    /// Every model that some order of all steps leads to, each step answering as it did.
    func reachable(from starts: Set<RegistryModel>) -> Set<RegistryModel> {
        var reached = [Set<RegistryModel>](repeating: [], count: all + 1)
        reached[0] = starts
        for done in 0..<all where !reached[done].isEmpty {
            for index in steps.indices {
                let moment = momentsDone(of: index, in: done)
                guard moment < steps[index].moments, mayFollow(index, done: done) else { continue }
                for before in reached[done] { reached[done + strides[index]].formUnion(follow(index, moment, before)) }
            }
        }
        return reached[all]
    }

    private func momentsDone(of index: Int, in done: Int) -> Int { done / strides[index] % (steps[index].moments + 1) }

    private func mayFollow(_ index: Int, done: Int) -> Bool {
        guard let installation = steps[index].registered, let at = steps[index].registeredAt else { return true }
        return !steps.indices.contains { other in
            guard momentsDone(of: other, in: done) == 0, steps[other].registered == installation,
                let earlier = steps[other].registeredAt
            else { return false }
            return earlier < at
        }
    }

    /// What a step's next moment may lead to, as far as it answered so.
    private func follow(_ index: Int, _ moment: Int, _ before: RegistryModel) -> [RegistryModel] {
        let step = steps[index]
        switch step.operation {
        case .erase, .restore:
            let (attempt, part) = (moment / step.momentsOfAttempt, moment % step.momentsOfAttempt)
            let results = step.part(part, index, before)
            if attempt < step.attempts - 1 { return results + [before] }
            guard part == step.momentsOfAttempt - 1 else { return results }
            return results.compactMap { result in
                var model = result
                let done = model.underway.removeValue(forKey: index) ?? .init()
                return step.answer.reports(done) ? model : nil
            }
        case .outcome(let outcome) where erased.contains(outcome.delivery.user):
            var model = before
            _ = model.apply(step.operation, tag: step.tag)
            return [model, before]
        case .send(let user) where erased.contains(user):
            var model = before
            guard case .sent(let all) = model.apply(step.operation, tag: step.tag), case .sent(let found) = step.answer else { return [] }
            return found.isSubset(of: all) ? [model] : []
        default:
            var model = before
            return model.apply(step.operation, tag: step.tag).permits(step.answer) ? [model] : []
        }
    }
}

extension Linearization.Step {
    fileprivate var registered: Int? {
        guard case .register(let registration) = operation else { return nil }
        return registration.installation
    }

    fileprivate var moments: Int { momentsOfAttempt * attempts }

    fileprivate var momentsOfAttempt: Int {
        switch operation {
        case .erase: RegistryModel.endingParts + 2 * historyPages
        case .restore: RegistryModel.restoringParts
        default: 1
        }
    }

    fileprivate func part(_ part: Int, _ index: Int, _ before: RegistryModel) -> [RegistryModel] {
        switch operation {
        case .erase(let user):
            let look = part - RegistryModel.endingParts
            if look < 0 { return before.endingOwned(by: user, step: index, isFirst: part == 0) }
            if look % 2 == 0 { return before.lookingForLeft(by: user, step: index, isLast: look / 2 == historyPages - 1) }
            return before.endingLeft(by: user, step: index)
        case .restore(let installation): return [before.restoring(installation, step: index, isFirst: part == 0)]
        default: return []
        }
    }
}

extension RegistryAnswer {
    fileprivate func reports(_ done: RegistryModel.Underway) -> Bool {
        switch self {
        case .erased(let installations, let tokens): done.installations == installations && done.tokens == tokens
        case .restored(let restored, let superseded): done.restored == restored && done.superseded == superseded
        default: false
        }
    }
}
