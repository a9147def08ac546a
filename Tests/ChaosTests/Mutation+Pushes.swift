import ChaosChecking
import ChaosLedger
import PushModel
import TestSupport

extension Mutation {
    func addAPush(_ story: inout Story, _ platform: PerfectPlatform, _ accepted: [Int], _ random: inout SeededGenerator) -> Promise? {
        guard let index = accepted.randomElement(using: &random) else { return nil }
        var push = story.pushList[index]
        defer { story.pushList.append(push) }
        switch self {
        case .pushTwice:
            push.time += Int64.random(in: 0...5_000_000, using: &random)
            return .duplicated
        case .pushTwiceUnderAnotherName:
            push.id = PushID(high: 77, low: push.id.low)
            return .idempotency
        case .pushUnasked:
            push.id = PushID(high: 78, low: push.id.low)
            push.marker = 5000 + random.number(0...99)
            return .phantom
        case .pushAsAnotherApp:
            push.topic = push.topic == "com.example.bank" ? "com.example.shop" : "com.example.bank"
            return .crossApp
        case .pushToAStranger:
            push.token = Story.token(9999, push.topic == "com.example.bank" ? "bank" : "shop")
            push.id = PushID(high: 79, low: push.id.low)
            return .afterLogout
        case .pushAfterExpiry:
            let late = platform.notifications.filter { $0.value.expiresAt != nil }.keys.sorted().randomElement(using: &random)
            guard let late, let own = story.pushList.first(where: { $0.marker == late }),
                let expiry = platform.notifications[late]?.expiresAt
            else { return nil }
            push = own
            push.fate = .accepted
            push.time = Story.moment(expiry + 1001 + random.number(0...60_000))
            return .afterExpiry
        case .pushAfterCancel:
            let late = platform.notifications.filter { $0.value.cancelledAt != nil }.keys.sorted().randomElement(using: &random)
            guard let late, let own = story.pushList.first(where: { $0.marker == late }),
                let end = platform.notifications[late]?.cancelledAt
            else { return nil }
            push = own
            push.fate = .accepted
            push.time = Story.moment(end + 1001 + random.number(0...60_000))
            return .afterCancel
        case .pushAfterLogout:
            // Every user leaves at the end, and one push comes all the same.
            guard let token = push.token else { return nil }
            story.ask(.logout, at: 200_000) { $0.tokens = [token] }
            push.time = Story.moment(201_011 + random.number(0...50_000))
            return .afterLogout
        default: return nil
        }
    }

    func changeTokens(_ story: inout Story, _ random: inout SeededGenerator) -> Promise? {
        func place(where isWanted: (ReportedInstallation) -> Bool) -> (Int, ReportedInstallation)? {
            let places = story.reportedList.indices.filter { index in
                if case .installation(let installation) = story.reportedList[index] { isWanted(installation) } else { false }
            }
            guard let index = places.randomElement(using: &random), case .installation(let found) = story.reportedList[index] else {
                return nil
            }
            return (index, found)
        }
        switch self {
        case .retireForNothing:
            let found = place { installation in
                installation.tokens[0].isActive
                    && !story.pushList.contains { $0.token == installation.tokens[0].token && $0.fate == .refused(410) }
            }
            guard case (let index, var installation)? = found else { return nil }
            installation.tokens[0] = ReportedToken(token: installation.tokens[0].token, isActive: false, reason: "gone")
            story.reportedList[index] = .installation(installation)
            return .wronglyRetired
        case .retireInSpiteOfARegistration:
            guard let (_, installation) = place(where: { !$0.tokens[0].isActive }) else { return nil }
            story.ask(.register, at: 250_000) { record in
                record.installation = installation.id
                record.tokens = [installation.tokens[0].token]
            }
            return .wronglyRetired
        default:
            guard var (_, installation) = place(where: { $0.tokens[0].isActive }) else { return nil }
            installation.id = PushID(high: 80, low: 1)
            installation.user = nil
            story.reportedList.append(.installation(installation))
            return .ownership
        }
    }
}
