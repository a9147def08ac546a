/// Credentials that change while jobs are under way.
extension DispatcherCore {
    /// What is sent from now on goes to the new pools. The old ones finish what they have, and what they had not sent comes back as such and is
    /// handed to the new ones (``OutcomeTable/Verdict/returned``).
    mutating func adopt(_ plan: CredentialPlan) {
        // A stop closes every pool there is, and nothing more is sent.
        guard !isStopping else { return }
        let retired = directory.adopt(plan)
        if !retired.isEmpty { actions.append(.retirePools(retired)) }
    }
}
