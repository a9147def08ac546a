package import PushModel

/// What a registration takes away, worked out from the token rows it concerns (DESIGN.md section 3, rules 2 and 3).
package struct TokenLosses: Equatable, Sendable {
    /// Token rows to retire: another token took the place, or the client said that they are over.
    package var replaced: [Int64] = []
    /// Token rows to retire: the registration, which is full state, no longer has the purpose.
    package var removed: [Int64] = []
    /// Installations that lose a token to this one while somebody else, or nobody, is signed in there: to be fenced.
    package var losersOfAnotherOwner: [PushID] = []
    /// Installations that lose a token to this one and have the same owner: nothing queued there is wrong, yet.
    package var losersOfSameOwner: [PushID] = []

    package init(_ held: [TokenRow], registration: Registration, rows: [PushID: InstallationRow]) {
        for row in held {
            let isKept = registration.tokens.contains { $0.matches(row) }
            if row.installation != registration.installation, isKept || row.token == registration.replaces?.bytes {
                add(loser: row.installation, sameOwner: rows[row.installation]?.owner == registration.user)
            }
            guard !isKept, row.isActive else { continue }
            if row.token == registration.replaces?.bytes {
                replaced.append(row.id)
            } else if row.installation == registration.installation {
                if registration.tokens.contains(where: { $0.purpose.rawValue == row.purpose }) {
                    replaced.append(row.id)
                } else {
                    removed.append(row.id)
                }
            }
        }
    }

    private mutating func add(loser: PushID, sameOwner: Bool) {
        if sameOwner {
            if !losersOfSameOwner.contains(loser) { losersOfSameOwner.append(loser) }
        } else if !losersOfAnotherOwner.contains(loser) {
            losersOfAnotherOwner.append(loser)
        }
    }
}

/// A row of `tokens`, as far as the rules look at it.
package struct TokenRow: Equatable, Sendable {
    package let id: Int64
    package let environment: String
    package let purpose: String
    package let token: [UInt8]
    package let installation: PushID
    package let isActive: Bool
}

/// A row of `installations`, as far as the rules look at it.
package struct InstallationRow: Equatable, Sendable {
    package let id: PushID
    package let owner: String?
    package let epoch: Int64
    /// False once it was deregistered: only its epoch lives on.
    package let isRegistered: Bool
}

extension RegisteredToken {
    fileprivate func matches(_ row: TokenRow) -> Bool {
        token.bytes == row.token && environment.rawValue == row.environment && purpose.rawValue == row.purpose
    }
}

extension [PushID: InstallationRow] {
    /// In ascending order.
    package func others(ownedBy user: String?, than installation: PushID) -> [PushID] {
        guard let user else { return [] }
        return values.filter { $0.owner == user && $0.id != installation }.map(\.id).sorted()
    }
}
