import PushModel

/// One thing that a client, or a dispatcher, does to the registry.
enum RegistryOperation: Sendable {
    case register(Registration)
    case change(Change)
    case logOut(Int, expected: Expected)
    case logOutToken(number: Int)
    case logOutUser(Int, except: Int?)
    case deregister(Int)
    case deregisterToken(number: Int)
    /// A notification to a user: what it reaches is one view of the registry.
    case send(user: Int)
    case outcome(Outcome)
    case erase(user: Int)
    /// Of one installation, or of all.
    case restore(Int?)

    struct Registration: Sendable {
        var installation: Int
        var user: Int?
        /// No two in one place.
        var tokens: [TokenName]
        /// The number of a token that is over.
        var replaces: Int?
        var expected: Expected
    }

    /// PATCH: what is nil stays as it is.
    struct Change: Sendable {
        var installation: Int
        /// `.some(nil)` signs the user out.
        var user: Int??
        var tokens: [TokenName]?
        var replaces: Int?
        var expected: Expected
    }

    enum Expected: Sendable {
        case anyone
        case exactly(Int?)

        func allows(_ owner: Int?) -> Bool {
            switch self {
            case .anyone: true
            case .exactly(let expected): expected == owner
            }
        }
    }

    /// What became of a delivery that is still open.
    struct Outcome: Sendable {
        var delivery: OpenDelivery
        var outcome: OutcomeClass
        var since: Since
        /// The moment is APNs' timestamp, or else the moment of sending.
        var isStamped: Bool
        /// Reports a second, harmful end afterwards, which must change nothing.
        var isContradicted: Bool

        var token: TokenName { delivery.token }
        var retires: String? {
            switch outcome {
            case .tokenGone: "gone"
            case .tokenRejected: "rejected"
            default: nil
            }
        }
    }

    enum Since: Sendable {
        /// UNIX milliseconds before the round began, or when.
        case at(Int64)
        /// After everything that the round does.
        case future

        var moment: Int64 {
            switch self {
            case .at(let moment): moment
            case .future: .max
            }
        }
    }
}

/// A delivery that has no outcome yet.
struct OpenDelivery: Sendable {
    var id: PushID
    var notification: PushID
    var token: TokenName
    /// The number of the token's row.
    var row: Int64
    /// The installation that had the token when the notification was accepted, and its owner's epoch then.
    var installation: Int
    var epoch: Int64
    /// Whom it was sent to.
    var user: Int
}

/// What an operation answers with, as far as it is determined.
enum RegistryAnswer: Hashable, Sendable {
    case registered(isNew: Bool, epoch: Int64, user: Int?, tokens: Set<TokenState>, fence: Fence)
    /// 409: another user is signed in than was expected.
    case refused
    /// 404: there is nothing to change.
    case missing
    case signedOut(installation: Int?, didSignOut: Bool, epoch: Int64, fence: Fence)
    case signedOutEverywhere(count: Int, fence: Fence)
    case deregistered
    case sent(Set<Delivery>)
    case applied
    case erased(installations: Int, tokens: Int)
    case restored(Int, superseded: Int)

    struct TokenState: Hashable, Sendable {
        var name: TokenName
        var retired: String?
    }

    struct Delivery: Hashable, Sendable {
        var token: TokenName
        var installation: Int
        var epoch: Int64
    }

    /// What the answer says, and in the model what it may say.
    enum Fence: String, Hashable, Sendable {
        case none, effective, pending
        /// There are fences, of earlier calls only: one of them may be under way still.
        case earlier
        /// Either: a deregistered installation's fences are not shown.
        case unknown
    }

    /// Whether the service may have answered so.
    func permits(_ found: RegistryAnswer) -> Bool {
        switch (self, found) {
        case (.registered(let isNew, let epoch, let user, let tokens, let fence), .registered(_, _, _, _, let said)):
            fence.permits(said) && found == .registered(isNew: isNew, epoch: epoch, user: user, tokens: tokens, fence: said)
        case (.signedOut(let installation, let did, let epoch, let fence), .signedOut(_, _, _, let said)):
            fence.permits(said) && found == .signedOut(installation: installation, didSignOut: did, epoch: epoch, fence: said)
        case (.signedOutEverywhere(let count, let fence), .signedOutEverywhere(let found, let said)):
            fence.permits(said) && count == found
        default: self == found
        }
    }
}

extension RegistryAnswer.Fence {
    fileprivate func permits(_ said: Self) -> Bool {
        switch self {
        case .unknown: true
        case .earlier: said == .effective || said == .pending
        default: self == said
        }
    }
}
