import PushModel

// For the reader of a failure: one line for everything.

extension RegistryModel: CustomStringConvertible {
    var description: String {
        let people = installations.enumerated().compactMap { number, found in
            found.map {
                let state = $0.isRegistered ? userName($0.owner) : $0.isShell ? "erased" : "deregistered"
                return "i\(number) \(state) epoch \($0.epoch) by \($0.locale ?? "-")"
            }
        }
        let held = tokens.enumerated().compactMap { index, found in
            found.map { token in
                let at = token.registeredAt == Self.thisRound ? "now" : "\(token.registeredAt)"
                let state = (token.retired ?? "active") + (token.isQuarantined ? " (quarantined)" : "")
                return "\(TokenName(index: index))@i\(token.installation) \(state) \(at)"
            }
        }
        return (people + held + (isBraked ? ["braked"] : [])).joined(separator: "; ")
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
        case .change(let wanted):
            "change i\(wanted.installation)\(wanted.user.map { " to \(userName($0))" } ?? "")\(wanted.tokens.map { " \($0)" } ?? "")"
                + (wanted.replaces.map { " replaces t\($0)" } ?? "") + "\(wanted.expected)"
        case .logOut(let installation, let expected): "log out i\(installation)\(expected)"
        case .logOutToken(let number): "log out t\(number)"
        case .logOutUser(let user, let except): "log out \(userName(user)) everywhere\(except.map { " but i\($0)" } ?? "")"
        case .deregister(let installation): "deregister i\(installation)"
        case .deregisterToken(let number): "deregister t\(number)"
        case .send(let user): "send to \(userName(user))"
        case .outcome(let outcome):
            "\(outcome.outcome.rawValue) of \(outcome.token) since \(outcome.since)\(outcome.isStamped ? "" : ", not stamped")"
                + (outcome.isContradicted ? ", contradicted" : "")
        case .erase(let user): "erase \(userName(user))"
        case .restore(let installation): "restore \(installation.map { "i\($0)" } ?? "all")"
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
        case .missing: "missing"
        case .signedOut(let installation, let did, let epoch, let fence):
            "\(did ? "signed out" : "no user there") \(installation.map { "i\($0)" } ?? "nowhere") epoch \(epoch) fence \(fence)"
        case .signedOutEverywhere(let count, let fence): "signed out \(count) fence \(fence)"
        case .deregistered: "deregistered"
        case .sent(let deliveries): "sent \(deliveries.map { "\($0.token)@i\($0.installation) epoch \($0.epoch)" }.sorted())"
        case .applied: "applied"
        case .erased(let installations, let tokens): "erased \(installations) installations, \(tokens) tokens"
        case .restored(let restored, let superseded): "restored \(restored), superseded \(superseded)"
        }
    }
}

extension RegistryAnswer.TokenState: CustomStringConvertible {
    var description: String { "\(name) \(retired ?? "active")" }
}

private func userName(_ user: Int?) -> String { user.map { RegistryModel.users[$0] } ?? "no user" }
