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
        var attempts = 1
        let said: RegistryAnswer
        switch operation {
        case .send(let user): (said, open) = try await send(operation, to: user)
        case .outcome(let outcome):
            try await report(outcome, now: now)
            said = .applied
        default:
            let answer: APITestClient.Answer
            (answer, attempts) = try await patiently { try await request(operation, tag: tag) }
            said = try read(answer, of: operation)
            if case .register = operation { registeredAt = answer.json.text("registered_at").flatMap { RFC3339.milliseconds($0) } }
        }
        let step = Linearization.Step(operation: operation, tag: tag, answer: said, registeredAt: registeredAt, attempts: attempts)
        return Exchange(step: step, open: open)
    }

    /// 503 is for the client to repeat: a lock or a connection was waited for too long, and nothing was done. On a busy machine that may
    /// happen; a deadlock may not, so both are counted.
    /// - Returns: the first other answer, and how many times was asked.
    private func patiently(_ ask: () async throws -> APITestClient.Answer) async throws -> (APITestClient.Answer, Int) {
        let attempts = Counter()
        let answer = try await eventually {
            let answer = try await ask()
            attempts.increase()
            guard answer.status == 503 else { return answer }
            repeated.increase()
            return nil
        }
        return (answer, attempts.count)
    }

    private func request(_ operation: RegistryOperation, tag: String) async throws -> APITestClient.Answer {
        let base = "/v1/apps/\(app.text)"
        switch operation {
        case .register(let wanted):
            let body = Self.body(.some(wanted.user), wanted.tokens, wanted.replaces, wanted.expected, tag: tag)
            return try await client.put("\(base)/installations/\(id(wanted.installation))", body)
        case .change(let wanted):
            let body = Self.body(wanted.user, wanted.tokens, wanted.replaces, wanted.expected, tag: tag)
            return try await client.call("PATCH", "\(base)/installations/\(id(wanted.installation))", body)
        case .logOut(let number, .anyone): return try await client.post("\(base)/installations/\(id(number))/logout")
        case .logOut(let number, .exactly(let user)):
            return try await client.post("\(base)/installations/\(id(number))/logout", #"{"expected_user":\#(Self.json(user))}"#)
        case .logOutToken(let number): return try await client.post("\(base)/tokens/logout", #"{"token":\#(Self.token(number))}"#)
        case .logOutUser(let user, let except):
            let body = except.map { #"{"except":"\#(id($0))"}"# }
            return try await client.post("\(base)/users/\(RegistryModel.users[user])/logout", body)
        case .deregister(let number): return try await client.delete("\(base)/installations/\(id(number))")
        case .deregisterToken(let number): return try await client.post("\(base)/tokens/deregister", #"{"token":\#(Self.token(number))}"#)
        case .erase(let user):
            let name = RegistryModel.users[user]
            return try await running.client.post("\(base)/users/\(name)/erase", #"{"confirm":"\#(name)"}"#)
        case .restore(let number):
            return try await running.client.post("\(base)/quarantine/restore", number.map { #"{"installations":["\#(id($0))"]}"# })
        case .send, .outcome: preconditionFailure("neither is one request")
        }
    }

    private static func body(
        _ user: Int??, _ tokens: [TokenName]?, _ replaces: Int?, _ expected: RegistryOperation.Expected, tag: String
    ) -> String {
        var fields = [#""locale":"\#(tag)""#]
        if let user { fields.append(#""user":\#(json(user))"#) }
        if let tokens {
            let listed = tokens.map { #"{"token":"\#($0.text)","environment":"\#($0.environment)","purpose":"\#($0.purpose)"}"# }
            fields.append(#""tokens":[\#(listed.joined(separator: ","))]"#)
        }
        if let replaces { fields.append(#""replaces":\#(token(replaces))"#) }
        if case .exactly(let user) = expected { fields.append(#""expected_user":\#(json(user))"#) }
        return "{\(fields.joined(separator: ","))}"
    }

    private static func token(_ number: Int) -> String { "\"\(TokenName(number: number, place: 0).text)\"" }

    private static func json(_ user: Int?) -> String { user.map { "\"\(RegistryModel.users[$0])\"" } ?? "null" }

    private func read(_ answer: APITestClient.Answer, of operation: RegistryOperation) throws -> RegistryAnswer {
        if answer.status == 409 { return .refused }
        if answer.status == 404, case .change = operation { return .missing }
        let fence = answer.json.text("fence").flatMap { RegistryAnswer.Fence(rawValue: $0) }
        switch (operation, answer.status) {
        case (.register, 200), (.register, 201), (.change, 200):
            guard let record = RegistryState.Record(answer.json), let fence else { break }
            return .registered(isNew: answer.status == 201, epoch: record.epoch, user: record.user, tokens: record.tokens, fence: fence)
        case (.logOut, 200), (.logOutToken, 200):
            guard let did = answer.json["signed_out"]?.boolValue, let epoch = answer.json.number("owner_epoch"), let fence else { break }
            let installation = answer.json.text("id").flatMap { PushID($0) }.flatMap { RegistryState.number(of: $0) }
            return .signedOut(installation: installation, didSignOut: did, epoch: epoch, fence: fence)
        case (.logOutUser, 200):
            guard let count = answer.json.number("signed_out"), let fence else { break }
            return .signedOutEverywhere(count: Int(count), fence: fence)
        case (.deregister, 204), (.deregisterToken, 204): return .deregistered
        case (.erase, 200):
            let erased = answer.json["erased"]
            guard let installations = erased?.number("installations"), let tokens = erased?.number("tokens") else { break }
            return .erased(installations: Int(installations), tokens: Int(tokens))
        case (.restore, 200):
            guard let restored = answer.json.number("restored"), let superseded = answer.json.number("superseded") else { break }
            return .restored(Int(restored), superseded: Int(superseded))
        default: break
        }
        throw BadAnswer(operation, answer)
    }

    func send(_ operation: RegistryOperation, to user: Int) async throws -> (RegistryAnswer, [OpenDelivery]) {
        let body = #"{"user":"\#(RegistryModel.users[user])"}"#
        let (answer, _) = try await patiently { try await client.send(body, app: app.text) }
        guard answer.status == 202, let notification = answer.json.text("id").flatMap({ PushID($0) }) else {
            throw BadAnswer(operation, answer)
        }
        guard answer.json.number("deliveries") != 0 else { return (.sent([]), []) }
        let deliveries = try await eventually { sent.job(of: notification)?.deliveries }
        // The rows of its tokens; there are none where the notification was erased with its user since.
        let rows = try await running.pool.session { session in
            let rows = try session.execute(
                """
                SELECT delivery_id(j.notification, j.number, m.position) AS id, m.token_id FROM jobs j CROSS JOIN LATERAL members_of(j) AS m
                WHERE j.notification = \(notification)
                """
            )
            return try rows.map { row -> (PushID, Int64) in (try row["id"], try row["token_id"]) }
        }
        let rowsOfTokens = Dictionary(uniqueKeysWithValues: rows)
        var targets: Set<RegistryAnswer.Delivery> = []
        var open: [OpenDelivery] = []
        for delivery in deliveries {
            let name = try #require(RegistryState.name(delivery))
            let number = try #require(RegistryState.number(of: delivery.installation))
            targets.insert(.init(token: name, installation: number, epoch: delivery.ownerEpoch))
            guard let row = rowsOfTokens[delivery.id] else { continue }
            open.append(
                OpenDelivery(
                    id: delivery.id, notification: notification, token: name, row: row, installation: number, epoch: delivery.ownerEpoch,
                    user: user))
        }
        return (.sent(targets), open)
    }

    /// As a dispatcher reports it, and until it is applied, or the delivery is gone with its user.
    private func report(_ outcome: RegistryOperation.Outcome, now: Int64) async throws {
        let later = now + 3_600_000
        let moment = if case .at(let moment) = outcome.since { moment } else { later }
        try await running.report(
            event(outcome, as: outcome.outcome, timestamp: outcome.isStamped ? moment : nil, sentAt: moment))
        if outcome.isContradicted {
            try await running.report(event(outcome, as: .tokenGone, timestamp: later, sentAt: later))
        }
        _ = try await eventually {
            let (notification, id) = (outcome.delivery.notification, outcome.delivery.id)
            let open = try await running.count(
                "SELECT count(*) FROM deliveries WHERE notification = \(notification) AND id = \(id) AND class IS NULL")
            return open == 0 ? true : nil
        }
    }

    private func event(
        _ outcome: RegistryOperation.Outcome, as reported: OutcomeClass, timestamp: Int64?, sentAt: Int64
    ) -> OutcomeEvent {
        let delivery = OutcomeEvent.Delivery(
            id: outcome.delivery.id, notification: outcome.delivery.notification, installation: id(outcome.delivery.installation),
            attempt: 1, ownerEpoch: outcome.delivery.epoch, status: reported == .tokenGone ? 410 : 400,
            reason: reported == .tokenGone ? "Unregistered" : "BadDeviceToken", timestamp: timestamp, sentAt: sentAt)
        return OutcomeEvent(
            id: .random(), source: "/push/dispatcher/model", time: UnixClock.now(), app: app, outcome: reported, isFinal: true,
            deliveries: [delivery])
    }

    /// Every world has installations of its own, so that the control stream's fences can be distinguished.
    func id(_ number: Int) -> PushID { installation(self.number << 4 | number) }
}
