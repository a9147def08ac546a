/// From one round to the next.
extension RegistryModel {
    mutating func name(_ user: Int, at installation: Int) {
        named[installation].removeAll { $0.user == user }
        named[installation].append(Named(user: user, isRecent: true))
    }

    /// Ends a round: its moment is replaced by what the service's clock said, its new rows by their numbers.
    /// - Parameter erased: Users whom it erased.
    /// - Returns: more than one where the history may or may not name what races with an erasure.
    func settled(_ state: RegistryState, erased: Set<Int>) -> [RegistryModel] {
        var settled = self
        for index in settled.tokens.indices {
            if settled.tokens[index]?.registeredAt == Self.thisRound {
                settled.tokens[index]?.registeredAt = state.moments[index] ?? Self.thisRound
            }
            settled.tokens[index]?.row = state.rows[index] ?? 0
        }
        return settled.named.indices.reduce([settled]) { models, installation in
            models.flatMap { model in
                model.histories(of: installation, erased: erased).map { history in
                    var model = model
                    model.named[installation] = history
                    return model
                }
            }
        }
    }

    private func histories(of installation: Int, erased: Set<Int>) -> [[Named]] {
        let left = named[installation].filter { !$0.isFading && ($0.isRecent || !erased.contains($0.user)) }
        // The last one is there: it is the owner, or was met by the erasure.
        let doubtful = Set(left.dropLast().filter { erased.contains($0.user) }.map(\.user))
        return doubtful.reduce([left.map { Named(user: $0.user) }]) { histories, user in
            histories + histories.map { history in history.filter { $0.user != user } }
        }
    }
}
