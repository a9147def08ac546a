import Foundation

@testable import PushClient

/// The service's rules about installations, users, tokens and device credentials (docs/registration.md), in memory.
struct ModelServer: Hashable {
    struct Row: Hashable {
        var isRegistered = false
        var owner: String?
        var epoch = 0
        var profile = PushProfile()
        var tokens: Set<PushToken> = []
        /// The update tokens of the owner's Live Activities, by the app's ids.
        var activities: [String: String] = [:]
        /// Update tokens of activities that are over: a report brings none back.
        var retired: Set<String> = []

        mutating func endActivities() {
            retired.formUnion(activities.values)
            activities = [:]
        }
    }

    /// One request, from wherever it comes.
    struct Call: Hashable {
        var installation: UUID
        var upload: Upload
        var credential: String?
    }

    /// What a credential is for, and the owner epoch at which it was made.
    struct Scope: Hashable {
        var installation: UUID
        var user: String?
        var epoch: Int
    }

    var rows: [UUID: Row] = [:]
    var credentials: [String: Scope] = [:]
    var expired: Set<String> = []
    let needsCredential: Bool
    /// Whether a sign-out ends the credentials that were made until then although no user is signed in; here by the epoch. If not, a
    /// sign-in that comes late undoes it.
    var everySignOutEndsTheEpoch = true

    init(needsCredential: Bool) {
        self.needsCredential = needsCredential
    }

    /// What `POST …/device-credentials` does.
    mutating func makeCredential(_ text: String, installation: UUID, user: String?) {
        credentials[text] = Scope(installation: installation, user: user, epoch: rows[installation]?.epoch ?? 0)
        expired.remove(text)
    }

    mutating func handle(_ call: Call) -> RegistrationMachine.Answer {
        var row = rows[call.installation] ?? Row()
        if let refusal = refusal(of: call, row) { return .response(status: refusal.0, code: refusal.1, retryAfter: nil) }
        switch call.upload {
        case .register(let registration), .change(let registration):
            if call.upload.operation == .change, !row.isRegistered { return .response(status: 404, code: "not_found", retryAfter: nil) }
            if case .exactly(let user) = registration.expected, user != row.owner { return Self.mismatch }
            if row.epoch == 0 || row.owner != registration.claim.user { row.epoch += 1 }
            if row.owner != registration.claim.user { row.endActivities() }
            row.isRegistered = true
            row.owner = registration.claim.user
            row.profile = registration.claim.profile
            if call.upload.operation == .register {
                let listed = Set(registration.tokens)
                // A start token that the list does not name stays, until a newer one of its type comes; another one, if the device keeps
                // it.
                let kept = row.tokens.filter { old in
                    (old.purpose.isStart || registration.keeps.contains(old.purpose)) && !listed.contains { $0.purpose == old.purpose }
                }
                row.tokens = listed.union(kept)
                take(row.tokens, for: call.installation, owner: row.owner)
            }
            rows[call.installation] = row
        case .signOut(let expected), .deregister(let expected):
            if case .exactly(let user?) = expected, row.owner != nil, row.owner != user { return Self.mismatch }
            if row.owner != nil || row.isRegistered && call.upload.operation == .deregister || (needsCredential && everySignOutEndsTheEpoch)
            {
                row.epoch += 1
            }
            if row.owner != nil || call.upload.operation == .deregister { row.endActivities() }
            row.owner = nil
            if call.upload.operation == .deregister { row = Row(epoch: row.epoch, retired: row.retired) }
            rows[call.installation] = row
        case .receipts: break
        case .reportActivity(let name, let token, let expected):
            guard row.isRegistered else { return .response(status: 404, code: "not_found", retryAfter: nil) }
            if case .exactly(let user) = expected, user != row.owner { return Self.mismatch }
            if !row.retired.contains(token.hex) { row.activities[name.id] = token.hex }
            rows[call.installation] = row
        case .endActivity(let name):
            if let token = row.activities.removeValue(forKey: name.id) { row.retired.insert(token) }
            rows[call.installation] = row
        }
        return .response(status: 200, code: nil, retryAfter: nil)
    }

    private static let mismatch = RegistrationMachine.Answer.response(status: 409, code: "owner_mismatch", retryAfter: nil)

    private func refusal(of call: Call, _ row: Row) -> (Int, String)? {
        guard needsCredential else { return nil }
        guard let text = call.credential, let scope = credentials[text] else { return (401, "unauthenticated") }
        guard scope.installation == call.installation else { return (404, "not_found") }
        if expired.contains(text), call.upload.operation != .signOut { return (401, "credential_expired") }
        let isGood = row.epoch == scope.epoch || row.epoch == scope.epoch + 1 && row.owner == scope.user
        switch call.upload {
        case .register(let registration), .change(let registration):
            if registration.claim.user != scope.user { return (403, "forbidden") }
            if call.upload.operation == .change, !row.isRegistered { return nil }
            return isGood ? nil : (403, "credential_revoked")
        case .signOut, .deregister:
            return row.owner == nil || (isGood && row.owner == scope.user) ? nil : (403, "credential_revoked")
        case .receipts: return nil
        case .reportActivity, .endActivity: return isGood ? nil : (403, "credential_revoked")
        }
    }

    /// Rule 2: a token that another installation has moves here, and another user's time there ends.
    private mutating func take(_ tokens: Set<PushToken>, for installation: UUID, owner: String?) {
        for (id, row) in rows where id != installation && !row.tokens.isDisjoint(with: tokens) {
            rows[id]?.tokens.subtract(tokens)
            if row.owner != owner { rows[id]?.epoch += 1 }
        }
    }
}
