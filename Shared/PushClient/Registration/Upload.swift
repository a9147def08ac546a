/// One request to the server.
enum Upload: Hashable, Sendable {
    /// `PUT`: everything about the installation. Only with tokens of this launch.
    case register(Registration)
    /// `PATCH`: user and profile, while the tokens of this launch are not there. It leaves the server's tokens alone.
    case change(Registration)
    case signOut(ExpectedUser)
    case deregister(ExpectedUser)
    case receipts([PushReceipt])
    case reportActivity(ActivityName, ActivityToken, ExpectedUser)
    case endActivity(ActivityName)

    struct Registration: Hashable, Sendable {
        var claim: Claim
        var tokens: [PushToken]
        /// The server keeps the tokens of these purposes, though the list names none.
        var keeps: Set<PushTokenPurpose> = []
        var expected: ExpectedUser

        var list: TokenList { TokenList(tokens: tokens, keeps: keeps) }
    }

    /// What a registration says of tokens. The server retires those that it neither lists nor keeps, but start tokens.
    struct TokenList: Hashable, Sendable {
        var tokens: [PushToken] = []
        var keeps: Set<PushTokenPurpose> = []
    }

    var operation: PushOperation {
        switch self {
        case .register: .register
        case .change: .change
        case .signOut: .signOut
        case .deregister: .deregister
        case .receipts: .receipts
        case .reportActivity: .reportActivity
        case .endActivity: .endActivity
        }
    }
}

/// Whom the server must have as the owner, or refuse: a request that comes late then changes nothing.
enum ExpectedUser: Hashable, Sendable {
    case anyone
    case exactly(String?)
}
