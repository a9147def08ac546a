import ChaosLedger
import PushModel

/// The possible and the certain owner of each installation, from the clients' requests and answers.
///
/// Two requests have an order only if one was answered before the other was sent. An unanswered request may have happened at any moment
/// until its lateness has passed. Doubt counts in favour of the platform, in both directions.
struct OwnershipBook {
    /// The time in which a push to a user at a token is allowed. It ends a second after the answer to the request that ended it.
    struct Stay {
        let from: Int64
        /// `Int64.max` if no request ended it.
        let until: Int64
        /// The request that ended it.
        let endedBy: Int64?
    }

    private struct Key: Hashable {
        let user: Int32
        let token: Int32
    }

    private(set) var calls: [RegistryCall] = []
    private var byInstallation: [PushID: [Int32]] = [:]
    private var byToken: [Int32: [Int32]] = [:]
    private var byUser: [Int32: [Int32]] = [:]
    /// The stays of one user at a token.
    private var stays: [Key: [Stay]] = [:]
    /// The stays of a token at any installation until it is deregistered. A notification to the device and not to a user may go there for
    /// any owner.
    private var registered: [Int32: [Stay]] = [:]
    private let isSingle: [Bool]

    init(_ run: RunRecord) { isSingle = run.apps.map(\.isSingle) }

    mutating func note(_ call: RegistryCall) {
        let index = Int32(calls.count)
        calls.append(call)
        if let installation = call.installation { byInstallation[installation, default: []].append(index) }
        for token in call.tokens { byToken[token, default: []].append(index) }
        if let user = call.user ?? call.owner { byUser[user, default: []].append(index) }
    }

    /// Call this once, after the last request.
    mutating func finish() {
        for call in calls {
            guard case .register(let user) = call.kind else { continue }
            for token in call.tokens {
                registered[token, default: []].append(stay(call, until: ender(of: call, nil, token)))
                if let user { stays[Key(user: user, token: token), default: []].append(stay(call, until: ender(of: call, user, token))) }
            }
        }
    }

    private func stay(_ call: RegistryCall, until end: (at: Int64, by: Int64)?) -> Stay {
        Stay(from: call.sentAt, until: end?.at ?? .max, endedBy: end?.by)
    }

    /// The first request that certainly came after the registration and ended the user's time at the token (with nil, the registration's),
    /// and its moment.
    private func ender(of call: RegistryCall, _ user: Int32?, _ token: Int32) -> (at: Int64, by: Int64)? {
        var first: (at: Int64, by: Int64)?
        func consider(_ other: RegistryCall) {
            guard other.isCertain, other.sentAt >= call.until else { return }
            let moment = effect(of: other, on: call)
            if moment < first?.at ?? .max { first = (moment, other.request) }
        }
        for index in call.installation.flatMap({ byInstallation[$0] }) ?? [] where calls[Int(index)].endsOwnership(of: user) {
            consider(calls[Int(index)])
        }
        // If the token goes to another installation of the user, the registration there is its own stay.
        for index in byToken[token] ?? [] where calls[Int(index)].endsOwnership(of: user) || calls[Int(index)].takes(from: call) {
            consider(calls[Int(index)])
        }
        for index in user.flatMap({ byUser[$0] }) ?? [] where endsElsewhere(calls[Int(index)], user ?? -1, call.installation) {
            consider(calls[Int(index)])
        }
        return first
    }

    /// An answer reports the fences of its own installation. A registration that only repeats the one that moved the token says nothing
    /// about the fence of the installation before, which may still be pending.
    private func effect(of ender: RegistryCall, on call: RegistryCall) -> Int64 {
        guard ender.owner != nil, let installation = ender.installation, installation != call.installation else { return ender.effectiveAt }
        var moment = ender.effectiveAt
        for index in byInstallation[installation] ?? [] {
            let earlier = calls[Int(index)]
            guard earlier.owner != nil, earlier.until >= call.sentAt, earlier.sentAt <= ender.sentAt else { continue }
            moment = max(moment, earlier.effectiveAt)
        }
        return moment
    }

    /// Whether a request signs a user out of an installation that it does not name.
    private func endsElsewhere(_ call: RegistryCall, _ user: Int32, _ installation: PushID?) -> Bool {
        if call.user == user { return call.except != installation || installation == nil }
        return isSingle[call.app] && call.owner == user && call.installation != installation
    }

    // MARK: May have been

    enum Answer {
        /// No record shows that they ever were.
        case never
        case owner
        /// They had left: the last moment at which a push could be right, and the request that ended it.
        case left(Int64, endedBy: Int64?)
    }

    /// Whether a push to the token at that moment can be right for the user, or with nil for the device and any owner.
    func mayOwn(_ user: Int32?, _ token: Int32, at moment: Int64) -> Answer {
        let found = user.map { stays[Key(user: $0, token: token)] ?? [] } ?? registered[token] ?? []
        var last: Stay?
        for stay in found where stay.from <= moment + 1000 {
            if stay.until >= moment { return .owner }
            if stay.until > last?.until ?? .min { last = stay }
        }
        return last.map { .left($0.until, endedBy: $0.endedBy) } ?? .never
    }

    /// Whether a request may have ended an owner's time at the installation at that moment or later.
    func mayBeFenced(_ installation: PushID, since moment: Int64) -> Bool {
        for related in withTokens(of: installation) {
            for call in calls(on: related) {
                if call.until >= moment { return true }
                // Requests that name the token and no installation count too.
                if call.tokens.contains(where: { calls(naming: $0).contains { $0.until >= moment } }) { return true }
                guard let user = call.owner else { continue }
                let others = (byUser[user] ?? []).map { calls[Int($0)] }
                if others.contains(where: { $0.until >= moment && endsElsewhere($0, user, related) }) { return true }
            }
        }
        return false
    }

    /// The installation, and the others that had its tokens. A change of owner at one of them fences those that had its token before.
    private func withTokens(of installation: PushID) -> [PushID] {
        var found = [installation]
        var next = 0
        while next < found.count, found.count < 100 {
            let tokens = Set(calls(on: found[next]).flatMap(\.tokens))
            for call in tokens.flatMap({ calls(naming: $0) }) {
                if let other = call.installation, !found.contains(other) { found.append(other) }
            }
            next += 1
        }
        return found
    }

    /// Whether the user may be signed in on the installation at the end.
    func mayEndAs(_ user: Int32, on installation: PushID) -> Bool {
        for index in byInstallation[installation] ?? [] where calls[Int(index)].owner == user {
            let call = calls[Int(index)]
            let isOver = (byInstallation[installation] ?? []).contains { other in
                let other = calls[Int(other)]
                return other.isCertain && other.sentAt >= call.until && other.endsOwnership(of: user)
            }
            if !isOver { return true }
        }
        return false
    }

    func calls(on installation: PushID) -> [RegistryCall] { (byInstallation[installation] ?? []).map { calls[Int($0)] } }
    func calls(naming token: Int32) -> [RegistryCall] { (byToken[token] ?? []).map { calls[Int($0)] } }

    // MARK: Certainly was

    /// Tokens that the user certainly had from one moment to the other, and that no request touched in that time.
    func certainTokens(of user: Int32, from: Int64, to: Int64) -> [(token: Int32, installation: PushID)] {
        var found: [(token: Int32, installation: PushID)] = []
        for index in byUser[user] ?? [] {
            let call = calls[Int(index)]
            guard call.isCertain, call.owner == user, call.until < from, let installation = call.installation else { continue }
            for token in call.tokens where !found.contains(where: { $0.token == token }) && isUntouched(call, user, token, until: to) {
                found.append((token, installation))
            }
        }
        return found
    }

    /// Whether only repetitions of the registration may have changed any of its parts until that moment.
    private func isUntouched(_ call: RegistryCall, _ user: Int32, _ token: Int32, until end: Int64) -> Bool {
        func touches(_ index: Int32) -> Bool {
            let other = calls[Int(index)]
            guard other.request != call.request, other.until >= call.sentAt, other.sentAt <= end else { return false }
            return other.kind != call.kind || other.installation != call.installation || other.tokens != call.tokens
        }
        if let installation = call.installation, (byInstallation[installation] ?? []).contains(where: touches) { return false }
        if (byToken[token] ?? []).contains(where: touches) { return false }
        return !(byUser[user] ?? []).contains { index in
            touches(index) && endsElsewhere(calls[Int(index)], user, call.installation)
        }
    }
}
