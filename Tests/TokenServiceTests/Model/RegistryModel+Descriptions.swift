import PushModel

// For the reader of a failure: one line for everything.

extension RegistryModel: CustomStringConvertible {
    var description: String {
        let people = installations.enumerated().compactMap { number, found in
            found.map { "i\(number) \($0.isRegistered ? userName($0.owner) : "deregistered") epoch \($0.epoch) by \($0.locale ?? "-")" }
        }
        let held = tokens.enumerated().compactMap { index, found in
            found.map { token in
                let at = token.registeredAt == Self.thisRound ? "now" : "\(token.registeredAt)"
                return "\(TokenName(index: index))@i\(token.installation) \(token.retired ?? "active") \(at)"
            }
        }
        return (people + held).joined(separator: "; ")
    }
}

extension TokenName: CustomStringConvertible {
    var description: String { "t\(number)\(["", "/sandbox", "/voip"][place])" }
}

extension RegistryOperation: CustomStringConvertible {
    var description: String {
        switch self {
        case .register(let wanted):
            "register i\(wanted.installation) \(userName(wanted.user)) \(wanted.tokens)"
                + (wanted.replaces.map { " replaces t\($0)" } ?? "") + "\(wanted.expected)"
        case .logOut(let installation, let expected): "log out i\(installation)\(expected)"
        case .logOutToken(let number): "log out t\(number)"
        case .logOutUser(let user, let except): "log out \(userName(user)) everywhere\(except.map { " but i\($0)" } ?? "")"
        case .deregister(let installation): "deregister i\(installation)"
        case .send(let user): "send to \(userName(user))"
        case .outcome(let outcome):
            "\(outcome.outcome.rawValue) of \(outcome.token) since \(outcome.since)\(outcome.isStamped ? "" : ", not stamped")"
                + (outcome.isContradicted ? ", contradicted" : "")
        }
    }
}

extension RegistryOperation.Expected: CustomStringConvertible {
    var description: String {
        switch self {
        case .anyone: ""
        case .exactly(let user): " if \(userName(user))"
        }
    }
}

extension RegistryAnswer: CustomStringConvertible {
    var description: String {
        switch self {
        case .registered(let isNew, let epoch, let user, let tokens, let fence):
            "\(isNew ? "new" : "known") \(userName(user)) epoch \(epoch) \(tokens.map(\.description).sorted()) fence \(fence)"
        case .refused: "refused"
        case .signedOut(let installation, let did, let epoch, let fence):
            "\(did ? "signed out" : "nobody there") \(installation.map { "i\($0)" } ?? "nowhere") epoch \(epoch) fence \(fence)"
        case .signedOutEverywhere(let count, let fence): "signed out \(count) fence \(fence)"
        case .deregistered: "deregistered"
        case .sent(let deliveries): "sent \(deliveries.map { "\($0.token)@i\($0.installation) epoch \($0.epoch)" }.sorted())"
        case .applied: "applied"
        }
    }
}

extension RegistryAnswer.TokenState: CustomStringConvertible {
    var description: String { "\(name) \(retired ?? "active")" }
}

private func userName(_ user: Int?) -> String { user.map { RegistryModel.users[$0] } ?? "nobody" }
