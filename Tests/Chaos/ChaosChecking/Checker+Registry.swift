import ChaosLedger
import PushModel

/// Judges the API's installations and tokens.
extension Checker {
    mutating func judge(_ installation: ReportedInstallation) {
        guard installation.isRegistered, let app = names.app(installation.app) else { return }
        if let name = installation.user {
            let isRight = names.knownUser(name, app).map { owners.mayEndAs($0, on: installation.id) } ?? false
            if !isRight {
                verdict.find(
                    .ownership, "installation \(installation.id) of \(installation.app) ends as user \(name)'s, whose time there was over")
            }
        }
        for token in installation.tokens {
            let number = names.token(token.token)
            if token.isActive {
                if let other = activeTokens.updateValue(installation.id, forKey: number), other != installation.id {
                    verdict.find(.ownership, "\(token.token.hint) is active at installation \(other) and at \(installation.id)")
                }
            } else if token.reason == "gone" {
                judgeEnd(of: number, at: installation.id)
            }
        }
    }

    /// Judges a token that is retired at the end. It must not have been registered again since the last moment in APNs' answers.
    private mutating func judgeEnd(of token: Int32, at installation: PushID) {
        let moments = (pushLog.refusals[token] ?? []).filter { $0.status == 410 }.compactMap(\.timestamp)
        guard let last = moments.max() else {
            return verdict.find(.wronglyRetired, "\(names.hint(token)) of installation \(installation) is retired, and APNs never said 410")
        }
        guard let later = registration(of: token, at: installation, after: last, before: .max) else { return }
        verdict.find(
            .wronglyRetired,
            """
            \(names.hint(token)) of installation \(installation) is retired; APNs spoke of \(at(last)), request \(later.request) of \
            \(at(later.sentAt)) registered it
            """
        )
    }

    /// A request that certainly registered the token there between two moments. Registrations have milliseconds.
    private func registration(of token: Int32, at installation: PushID, after: Int64, before: Int64) -> RegistryCall? {
        owners.calls(on: installation).first { call in
            guard call.isCertain, case .register = call.kind else { return false }
            return call.tokens.contains(token) && call.sentAt > after + 1000 && call.until < before
        }
    }

    mutating func judge(_ retirement: ReportedRetirement) {
        let hinted = owners.calls(on: retirement.installation).flatMap(\.tokens).filter { names.hint($0) == retirement.hint }
        let delivery = retirement.delivery.flatMap { pushLog.delivery($0) }
        let token = delivery.map(\.token) ?? hinted.first
        let name = "\(retirement.hint) of installation \(retirement.installation), retired at \(at(retirement.at)) (\(retirement.reason))"
        guard let token, token >= 0 else { return verdict.find(.wronglyRetired, "\(name): no request registered it and no push used it") }
        let said = pushLog.refusals[token] ?? []
        // A moment from the database, whose clock is beside APNs' clock.
        let before = retirement.at + run.grace
        if retirement.status == 410 || retirement.apnsTimestamp != nil {
            let words = said.filter { $0.status == 410 && $0.time <= before }
            guard words.contains(where: { retirement.apnsTimestamp == nil || $0.timestamp == retirement.apnsTimestamp }) else {
                return verdict.find(.wronglyRetired, "\(name): APNs had not said so")
            }
            let moment = retirement.apnsTimestamp ?? words.compactMap(\.timestamp).max()
            guard let moment, let later = registration(of: token, at: retirement.installation, after: moment, before: retirement.at) else {
                return
            }
            verdict.find(
                .wronglyRetired,
                "\(name): APNs spoke of \(at(moment)), and request \(later.request) of \(at(later.sentAt)) had registered it since")
        } else if retirement.status == 400, !said.contains(where: { $0.status == 400 && $0.time <= before }) {
            verdict.find(.wronglyRetired, "\(name): APNs had not rejected it")
        }
    }

    /// Of two requests for one installation, the later one must not get a lower epoch.
    func epochsGoneBack() -> [String] {
        var byInstallation: [PushID: [RegistryCall]] = [:]
        for call in owners.calls where call.epoch != nil { if let id = call.installation { byInstallation[id, default: []].append(call) } }
        return byInstallation.flatMap { id, calls -> [String] in
            let answered = calls.sorted { $0.until < $1.until }
            var (next, highest) = (0, RegistryCall?.none)
            return calls.sorted { $0.sentAt < $1.sentAt }.compactMap { call -> String? in
                while next < answered.count, answered[next].until <= call.sentAt {
                    if answered[next].epoch ?? 0 > highest?.epoch ?? -1 { highest = answered[next] }
                    next += 1
                }
                guard let highest, let before = highest.epoch, let epoch = call.epoch, epoch < before else { return nil }
                return "installation \(id): request \(highest.request) got epoch \(before), request \(call.request) later \(epoch)"
            }
        }.sorted()
    }
}
