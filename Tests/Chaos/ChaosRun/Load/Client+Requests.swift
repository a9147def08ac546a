import ChaosLedger
import Foundation
import PushAPI
import PushModel
import StrictJSON

/// The requests themselves.
extension Client {
    func registration(_ device: Device) -> Question {
        let environment = apps[device.app].environment
        let body = JSONWriter.object { object in
            // A registration is the whole state, so it must name the absence of a user.
            if let user = device.user { object.field("user", user) } else { object.null("user") }
            object.array("tokens") { list in
                list.object { token in
                    token.field("token", device.token.hex)
                    token.field("environment", environment)
                }
                guard let start = device.startToken else { return }
                list.object { token in
                    token.field("token", start.hex)
                    token.field("environment", environment)
                    token.field("purpose", "activity_start:\(ChaosApp.attributesType)")
                }
            }
            object.field("app_tags", device.tags)
        }
        var question = question(.register, device.app, .put, "installations/\(device.installation)", body: body)
        question.record.installation = device.installation
        question.record.user = device.user
        question.record.tokens = [device.token]
        question.record.startTokens = [device.startToken].compactMap { $0 }
        return question
    }

    func logout(_ device: Device) -> Question {
        var question = question(.logout, device.app, .post, "installations/\(device.installation)/logout")
        question.record.installation = device.installation
        question.record.user = device.user
        return question
    }

    /// For a client that knows only its token.
    func logoutByToken(_ device: Device) -> Question {
        var question = question(.logout, device.app, .post, "tokens/logout", body: tokenBody(device))
        question.record.tokens = [device.token]
        question.record.user = device.user
        return question
    }

    func logoutEverywhere(_ user: String, app: Int) -> Question {
        var question = question(.logout, app, .post, "users/\(user)/logout")
        question.record.user = user
        return question
    }

    func deregistration(_ device: Device, byToken: Bool) -> Question {
        if byToken {
            var question = question(.deregister, device.app, .post, "tokens/deregister", body: tokenBody(device))
            question.record.tokens = [device.token]
            return question
        }
        var question = question(.deregister, device.app, .delete, "installations/\(device.installation)")
        question.record.installation = device.installation
        return question
    }

    private func tokenBody(_ device: Device) -> [UInt8] {
        JSONWriter.object { object in
            object.field("token", device.token.hex)
            object.field("environment", apps[device.app].environment)
        }
    }

    /// The recipients of a notification.
    enum Audience: Sendable {
        case user(String)
        case users([String])
        case installation(PushID)
        case tags(String)
        case all
    }

    /// When it may be sent, in UNIX microseconds.
    struct Timing: Sendable {
        var notBefore: Int64?
        var expiresAt: Int64?
    }

    /// - Parameters:
    ///   - key: nil for a client that accepts a second push and therefore does not repeat its request.
    ///   - lane: nil for the target's own.
    func notification(
        _ app: Int, to audience: Audience, marker: Int64, key: String?, timing: Timing = Timing(), lane: Lane? = nil
    ) -> Question {
        let body = JSONWriter.object { object in
            object.object("to") { to in
                switch audience {
                case .user(let user): to.field("user", user)
                case .users(let users): to.field("users", users)
                case .installation(let id): to.field("installation", id.description)
                case .tags(let expression): to.field("tags", expression)
                case .all: to.field("all", true)
                }
            }
            object.object("payload") { payload in
                payload.object("aps") { $0.field("alert", "Chaos") }
                payload.field("marker", marker)
            }
            object.field("receipts", "all")
            if let lane { object.field("lane", lane.rawValue) }
            if let moment = timing.notBefore { object.field("not_before", rfc3339(moment)) }
            if let moment = timing.expiresAt { object.field("expires_at", rfc3339(moment)) }
        }
        var question = question(.send, app, .post, "notifications", body: body)
        question.mayRepeat = key != nil
        question.record.key = key
        question.record.marker = marker
        question.record.lane = lane
        question.record.notBefore = timing.notBefore
        question.record.expiresAt = timing.expiresAt
        switch audience {
        case .user(let user): (question.record.target, question.record.user) = (.user, user)
        case .users(let users): (question.record.target, question.record.users) = (.users, users)
        case .installation(let id): (question.record.target, question.record.installation) = (.installation, id)
        case .tags(let expression): (question.record.target, question.record.tags) = (.tags, expression)
        case .all: question.record.target = .all
        }
        return question
    }

    func cancellation(_ notification: PushID, app: Int) -> Question {
        var question = question(.cancel, app, .delete, "notifications/\(notification)")
        question.record.notification = notification
        return question
    }

    /// It ends by itself, so that a hold without an answer does not last.
    func hold(lane: Lane, app: Int, until end: Int64) -> Question {
        let body = JSONWriter.object { object in
            object.field("lane", lane.rawValue)
            object.field("reason", "chaos")
            object.field("expires_at", rfc3339(end))
        }
        var question = question(.hold, app, .post, "holds", body: body)
        question.mayRepeat = false
        question.record.lane = lane
        question.record.expiresAt = end
        return question
    }

    func lifting(_ hold: PushID, app: Int) -> Question {
        var question = question(.lift, app, .delete, "holds/\(hold)")
        question.record.hold = hold
        return question
    }

    func reading(_ notification: PushID, app: Int) -> Question {
        var question = question(.read, app, .get, "notifications/\(notification)")
        question.record.notification = notification
        return question
    }
}

/// Whole milliseconds of a moment in microseconds, as the API takes it.
func rfc3339(_ microseconds: Int64) -> String {
    let (seconds, rest) = (microseconds / 1_000_000, microseconds / 1000 % 1000)
    let text = Date(timeIntervalSince1970: Double(seconds)).formatted(.iso8601)  // 2026-11-21T12:00:00Z
    return text.dropLast() + "." + String(String(1000 + rest).dropFirst()) + "Z"
}
