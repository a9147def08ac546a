import ChaosLedger
import PushModel

/// A request that may have changed the owner of an installation, and the time in which it did so.
struct RegistryCall {
    enum Kind: Equatable {
        /// The user; nil if no user is signed in.
        case register(Int32?)
        case logout
        case deregister
    }

    let request: Int64
    let app: Int
    let kind: Kind
    let installation: PushID?
    let tokens: [Int32]
    /// Of a logout everywhere.
    let user: Int32?
    let except: PushID?
    /// The service carried it out no earlier than this and no later than ``until``, if at all.
    let sentAt: Int64
    let until: Int64
    /// The answer said that it was carried out.
    let isCertain: Bool
    /// If it was carried out, nothing for a previous owner may be sent from then on.
    let effectiveAt: Int64
    let epoch: Int64?

    /// - Returns: nil for a request that certainly changed nothing.
    init?(_ record: ClientRecord, names: inout Names, run: RunRecord, faults: FaultTimeline) {
        guard let app = names.app(record.app) else { return nil }
        switch record.kind {
        case .register: kind = .register(record.user.map { names.user($0, app) })
        case .logout: kind = .logout
        case .deregister: kind = .deregister
        default: return nil
        }
        switch record.status {
        case .some(200..<300):
            isCertain = true
            until = record.answeredAt ?? record.sentAt
        case nil:
            isCertain = false
            until = (record.gaveUpAt ?? record.sentAt + 60_000_000) + run.lateness
        case .some(500...):
            // The answer to a commit may be lost while the commit is still on its way.
            isCertain = false
            until = (record.answeredAt ?? record.sentAt) + run.recovery
        default: return nil
        }
        request = record.id
        self.app = app
        installation = record.installation
        tokens = record.tokens.map { names.token($0) }
        // The user in a logout of one installation has no effect.
        let isEverywhere = record.kind == .logout && record.installation == nil && record.tokens.isEmpty
        user = isEverywhere ? record.user.map { names.user($0, app) } : nil
        except = record.except
        sentAt = record.sentAt
        effectiveAt = faults.effect(of: record.fence, at: until) + run.grace
        epoch = isCertain && record.kind != .deregister ? record.epoch : nil
    }

    /// Whether it signs the user out or leaves them signed out; with nil, whether it ends a registration.
    func endsOwnership(of user: Int32?) -> Bool {
        guard let user else { return kind == .deregister }
        if case .register(let owner) = kind { return owner != user }
        return true
    }

    /// Whether it registers a token of both requests at another installation.
    func takes(from other: RegistryCall) -> Bool {
        if case .register = kind { return installation != other.installation }
        return false
    }

    var owner: Int32? {
        if case .register(let user) = kind { return user }
        return nil
    }
}
