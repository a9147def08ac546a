import Postgres
import PushModel
import StrictJSON
import Testing
import TokenService

/// An operation and what came back.
struct Exchange: Sendable {
    var step: Linearization.Step
    /// Deliveries that wait for an outcome now.
    var open: [OpenDelivery] = []
}

/// An answer that is no answer: 5xx, or a document that says something else than it should.
struct BadAnswer: Error, CustomStringConvertible {
    let description: String

    init(_ operation: RegistryOperation, _ answer: APITestClient.Answer) {
        description = "\(answer.status) to \(operation): \(String(decoding: answer.bytes, as: UTF8.self))"
    }
}

extension RegistryWorld {
    func exchange(_ operation: RegistryOperation, tag: String, now: Int64) async throws -> Exchange {
        var open: [OpenDelivery] = []
        var registeredAt: Int64?
        let said: RegistryAnswer
        switch operation {
        case .send(let user): (said, open) = try await send(operation, to: RegistryModel.users[user])
        case .outcome(let outcome):
            try await report(outcome, now: now)
            said = .applied
        default:
            let answer = try await patiently { try await request(operation, tag: tag) }
            said = try read(answer, of: operation)
            registeredAt = answer.json.text("registered_at").flatMap { RFC3339.milliseconds($0) }
        }
        return Exchange(step: .init(operation: operation, tag: tag, answer: said, registeredAt: registeredAt), open: open)
    }

    /// 503 is for the client to repeat: a lock or a connection was waited for too long, and nothing was done. On a busy machine that may
    /// happen; a deadlock may not, so both are counted.
    private func patiently(_ ask: () async throws -> APITestClient.Answer) async throws -> APITestClient.Answer {
        try await eventually {
            let answer = try await ask()
            guard answer.status == 503 else { return answer }
            repeated.increase()
            return nil
        }
    }

    private func request(_ operation: RegistryOperation, tag: String) async throws -> APITestClient.Answer {
        let base = "/v1/apps/\(app.text)"
        switch operation {
        case .register(let wanted):
            return try await client.put("\(base)/installations/\(id(wanted.installation))", Self.body(wanted, tag: tag))
        case .logOut(let number, .anyone): return try await client.post("\(base)/installations/\(id(number))/logout")
        case .logOut(let number, .exactly(let user)):
            return try await client.post("\(base)/installations/\(id(number))/logout", #"{"expected_user":\#(Self.json(user))}"#)
        case .logOutToken(let number):
            return try await client.post("\(base)/tokens/logout", #"{"token":"\#(TokenName(number: number, place: 0).text)"}"#)
        case .logOutUser(let user, let except):
            let body = except.map { #"{"except":"\#(id($0))"}"# }
            return try await client.post("\(base)/users/\(RegistryModel.users[user])/logout", body)
        case .deregister(let number): return try await client.delete("\(base)/installations/\(id(number))")
        case .send, .outcome: preconditionFailure("neither is one request")
        }
    }

    private static func body(_ wanted: RegistryOperation.Registration, tag: String) -> String {
        let tokens = wanted.tokens.map {
            #"{"token":"\#($0.text)","environment":"\#($0.environment)","purpose":"\#($0.purpose)"}"#
        }
        var body = #"{"user":\#(json(wanted.user)),"tokens":[\#(tokens.joined(separator: ","))],"locale":"\#(tag)""#
        if let number = wanted.replaces { body += #","replaces":"\#(TokenName(number: number, place: 0).text)""# }
        if case .exactly(let user) = wanted.expected { body += #","expected_user":\#(json(user))"# }
        return body + "}"
    }

    private static func json(_ user: Int?) -> String { user.map { "\"\(RegistryModel.users[$0])\"" } ?? "null" }

    private func read(_ answer: APITestClient.Answer, of operation: RegistryOperation) throws -> RegistryAnswer {
        if answer.status == 409 { return .refused }
        let fence = answer.json.text("fence").flatMap { RegistryAnswer.Fence(rawValue: $0) }
        switch (operation, answer.status) {
        case (.register, 200), (.register, 201):
            guard let record = RegistryState.Record(answer.json), let fence else { break }
            return .registered(isNew: answer.status == 201, epoch: record.epoch, user: record.user, tokens: record.tokens, fence: fence)
        case (.logOut, 200), (.logOutToken, 200):
            guard let did = answer.json["signed_out"]?.boolValue, let epoch = answer.json.number("owner_epoch"), let fence else { break }
            let installation = answer.json.text("id").flatMap { PushID($0) }.flatMap { RegistryState.number(of: $0) }
            return .signedOut(installation: installation, didSignOut: did, epoch: epoch, fence: fence)
        case (.logOutUser, 200):
            guard let count = answer.json.number("signed_out"), let fence else { break }
            return .signedOutEverywhere(count: Int(count), fence: fence)
        case (.deregister, 204): return .deregistered
        default: break
        }
        throw BadAnswer(operation, answer)
    }

    private func send(_ operation: RegistryOperation, to user: String) async throws -> (RegistryAnswer, [OpenDelivery]) {
        let answer = try await patiently { try await client.send(#"{"user":"\#(user)"}"#, app: app.text) }
        guard answer.status == 202, let notification = answer.json.text("id").flatMap({ PushID($0) }) else {
            throw BadAnswer(operation, answer)
        }
        let rows = try await running.pool.session { session in
            try session.execute(
                """
                SELECT d.id, d.installation, d.owner_epoch, t.token, t.environment, t.purpose
                FROM deliveries d JOIN tokens t ON t.id = d.token_id WHERE d.notification = $1
                """, [.id(notification)]
            ).map { row in (try row.id(0), try row.id(1), try row.int64(2), try RegistryState.name(row, from: 3)) }
        }
        var targets: Set<RegistryAnswer.Delivery> = []
        var open: [OpenDelivery] = []
        for (delivery, installation, epoch, name) in rows {
            let number = try #require(RegistryState.number(of: installation))
            targets.insert(.init(token: name, installation: number, epoch: epoch))
            open.append(OpenDelivery(id: delivery, notification: notification, token: name, installation: number))
        }
        return (.sent(targets), open)
    }

    /// As a dispatcher tells it, and until it is applied.
    private func report(_ outcome: RegistryOperation.Outcome, now: Int64) async throws {
        let later = now + 3_600_000
        let moment = if case .at(let moment) = outcome.since { moment } else { later }
        try await running.report(
            event(outcome, as: outcome.outcome, timestamp: outcome.isStamped ? moment : nil, sentAt: moment))
        if outcome.isContradicted {
            try await running.report(event(outcome, as: .tokenGone, timestamp: later, sentAt: later))
        }
        _ = try await eventually {
            try await running.count(
                "SELECT count(*) FROM deliveries WHERE id = $1 AND class IS NOT NULL", [.id(outcome.delivery.id)]) == 1 ? true : nil
        }
    }

    private func event(
        _ outcome: RegistryOperation.Outcome, as told: OutcomeClass, timestamp: Int64?, sentAt: Int64
    ) -> OutcomeEvent {
        let delivery = OutcomeEvent.Delivery(
            id: outcome.delivery.id, notification: outcome.delivery.notification, installation: id(outcome.delivery.installation), attempt: 1,
            status: told == .tokenGone ? 410 : 400, reason: told == .tokenGone ? "Unregistered" : "BadDeviceToken", timestamp: timestamp,
            sentAt: sentAt)
        return OutcomeEvent(
            id: .random(), source: "/push/dispatcher/model", time: UnixClock.now(), app: app, outcome: told, isFinal: true,
            deliveries: [delivery])
    }

    /// Every world has installations of its own, so that the control stream's fences can be told apart.
    func id(_ number: Int) -> PushID { installation(self.number << 4 | number) }
}
