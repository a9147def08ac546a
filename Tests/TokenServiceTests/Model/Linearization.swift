/// Looks for an order in which a round's operations, one after another, would have given what was seen.
///
/// Not permutation by permutation: what can be reached by any order of a subset of the operations is worked out once, so a round of six
/// takes at most 64 subsets instead of 720 orders.
struct Linearization {
    /// An operation that was answered.
    struct Step: Sendable {
        var operation: RegistryOperation
        /// What the operation calls itself in an installation's profile.
        var tag: String
        var answer: RegistryAnswer
        /// What the service stamped a registration with: of two for one installation, the earlier comes first.
        var registeredAt: Int64?
    }

    let steps: [Step]

    /// Every model that some order of all steps leads to, each step answering as it did, and that looks like the end that was seen.
    func ends(from starts: Set<RegistryModel>, seen: RegistryModel) -> Set<RegistryModel> {
        reachable(from: starts).filter { $0.looks(like: seen) }
    }

    /// Every model that some order of all steps leads to, each step answering as it did.
    func reachable(from starts: Set<RegistryModel>) -> Set<RegistryModel> {
        let all = 1 << steps.count
        var reached = [Set<RegistryModel>](repeating: [], count: all)
        reached[0] = starts
        for done in 0..<all - 1 where !reached[done].isEmpty {
            for (index, step) in steps.enumerated() where done & 1 << index == 0 && mayFollow(index, done: done) {
                for before in reached[done] {
                    var model = before
                    if model.apply(step.operation, tag: step.tag).permits(step.answer) { reached[done | 1 << index].insert(model) }
                }
            }
        }
        return reached[all - 1]
    }

    private func mayFollow(_ index: Int, done: Int) -> Bool {
        guard let installation = steps[index].registered, let at = steps[index].registeredAt else { return true }
        return !steps.indices.contains { other in
            guard done & 1 << other == 0, steps[other].registered == installation, let earlier = steps[other].registeredAt else {
                return false
            }
            return earlier < at
        }
    }
}

extension Linearization.Step {
    fileprivate var registered: Int? {
        guard case .register(let registration) = operation else { return nil }
        return registration.installation
    }
}
