/// What the client knows about the server's side. A request that is under way makes it less certain, and its answer makes it certain.
struct ServerBelief: Codable, Hashable, Sendable {
    enum Existence: String, Codable, Sendable {
        /// The server certainly has no such installation.
        case absent
        case unknown
        /// The server has had a registration of it.
        case registered
    }

    var existence: Existence
    /// Every owner that the server may have now; null stands for none. Nil: it may be anyone.
    var owners: [String?]?
    /// What the server certainly has, or nil.
    var confirmed: Claim?

    /// The belief for an installation id that was made this moment.
    static let new = ServerBelief(existence: .absent, owners: [nil], confirmed: nil)
    /// The belief for an installation id of an earlier install whose state is lost.
    static let lost = ServerBelief(existence: .unknown, owners: nil, confirmed: nil)

    func mayHaveOwner(otherThan user: String?) -> Bool {
        guard let owners else { return true }
        return owners.contains { $0 != nil && $0 != user }
    }

    /// The request may be done from now on, whether or not its answer comes.
    mutating func begin(_ upload: Upload) {
        switch upload {
        case .register(let registration), .change(let registration):
            may(registration.claim.user)
            if existence == .absent { existence = .unknown }
            confirmed = nil
        case .signOut:
            may(nil)
            confirmed = nil
        case .deregister:
            may(nil)
            existence = .unknown
            confirmed = nil
        case .receipts, .reportActivity, .endActivity: break
        }
    }

    /// The server answered that it has done the request.
    mutating func finish(_ upload: Upload, before: ServerBelief) {
        switch upload {
        case .register(let registration), .change(let registration):
            self = ServerBelief(existence: .registered, owners: [registration.claim.user], confirmed: registration.claim)
        case .signOut:
            owners = [nil]
            confirmed = before.confirmed.map { Claim(user: nil, profile: $0.profile) }
        case .deregister: self = .new
        case .receipts, .reportActivity, .endActivity: break
        }
    }

    /// This user is certainly not the owner.
    mutating func end(_ user: String) {
        owners = owners.map { known in known.filter { $0 != user && $0 != nil } + [nil] }
        confirmed = nil
    }

    private mutating func may(_ owner: String?) {
        guard let known = owners, !known.contains(owner) else { return }
        owners = known + [owner]
    }
}
