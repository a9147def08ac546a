import ChaosChecking
import ChaosLedger
import PushModel
import TestSupport
import Testing

@Suite("Random histories of a platform that keeps its promises pass, and each of them fails with one fault put in", .timeLimit(.minutes(5)))
struct RandomHistoryTests {
    @Test("A history without a fault of the platform passes", arguments: [false, true]) func correctHistoriesPass(isFaulty: Bool) throws {
        for seed in 0..<300 as Range<UInt64> {
            let verdict = try PerfectPlatform(seed: seed, isFaulty: isFaulty).story.judge()
            #expect(verdict.isKept, "seed \(seed): \(verdict.examples)")
            #expect(verdict.figures.delivered > 0)
        }
    }

    @Test("The histories contain the events that they test") func historiesAreRich() throws {
        var (duplicated, refused, fenced, expired, retired) = (0, 0, 0, 0, 0)
        for seed in 0..<300 as Range<UInt64> {
            let story = PerfectPlatform(seed: seed, isFaulty: true).story
            let figures = try story.judge().figures
            duplicated += figures.explainedByKill + figures.explainedByAPNs
            refused += figures.requests - figures.answered
            fenced += figures.outcomes["fenced"] ?? 0
            expired += figures.outcomes["expired"] ?? 0
            retired += figures.outcomes["token_gone"] ?? 0
        }
        #expect(
            [duplicated, refused, fenced, expired, retired].allSatisfy { $0 > 30 },
            "\(duplicated) \(refused) \(fenced) \(expired) \(retired)")
    }

    @Test("The checker finds one fault in a correct history", arguments: Mutation.allCases)
    func oneFaultIsFound(mutation: Mutation) throws {
        var found = 0
        for seed in 0..<60 as Range<UInt64> {
            let platform = PerfectPlatform(seed: seed, isFaulty: mutation.standsFaults && seed.isMultiple(of: 2))
            var (story, random) = (platform.story, SeededGenerator(seed: seed))
            guard let promise = mutation.apply(to: &story, of: platform, &random) else { continue }
            let verdict = try story.judge()
            #expect(verdict.count(promise) > 0, "seed \(seed), \(mutation): found \(verdict.counts)")
            found += 1
        }
        #expect(found > 10, "only \(found) histories could be changed so")
    }
}

/// The single faults of a broken platform.
enum Mutation: CaseIterable {
    case loseAPush, forgetANotification, leaveADeviceOut, neverEnd, miscount
    case pushTwice, pushTwiceUnderAnotherName, pushToAStranger, pushUnasked, pushAfterLogout, pushAfterExpiry, pushAfterCancel,
        pushAsAnotherApp
    case retireForNothing, retireInSpiteOfARegistration, keepATokenTwice, turnAnEpochBack

    /// True if the fault always shows. Some faults show only if no other fault may excuse them.
    var standsFaults: Bool {
        switch self {
        case .pushTwice, .leaveADeviceOut, .pushAfterLogout: false
        default: true
        }
    }

    /// - Returns: the expected finding; nil if the history has no place for it.
    func apply(to story: inout Story, of platform: PerfectPlatform, _ random: inout SeededGenerator) -> Promise? {
        let accepted = story.pushList.indices.filter { story.pushList[$0].fate == .accepted }
        switch self {
        case .loseAPush:
            guard let index = accepted.filter({ isOnly(story.pushList[$0], in: story) }).randomElement(using: &random) else { return nil }
            story.pushList.remove(at: index)
            return .lost
        case .forgetANotification:
            guard let index = notifications(of: story).randomElement(using: &random) else { return nil }
            story.reportedList.remove(at: index)
            return .lost
        case .leaveADeviceOut: return leaveADeviceOut(&story, &random)
        case .neverEnd:
            return change(&story, &random) { $0.state = .sending } ? .stuck : nil
        case .miscount:
            return change(&story, &random) { $0.total += 1 } ? .counters : nil
        case .turnAnEpochBack:
            guard let device = platform.story.clientList.filter({ $0.kind == .register && $0.status == 200 }).randomElement(using: &random),
                let installation = device.installation
            else { return nil }
            for (number, epoch) in [Int64(9), 8].enumerated() {
                story.ask(.register, at: 200_000 + Int64(number) * 1000) { record in
                    (record.installation, record.epoch) = (installation, epoch)
                }
            }
            return .ownership
        case .retireForNothing, .retireInSpiteOfARegistration, .keepATokenTwice: return changeTokens(&story, &random)
        default: return addAPush(&story, platform, accepted, &random)
        }
    }

    private func isOnly(_ push: Push, in story: Story) -> Bool {
        story.pushList.count { $0.id == push.id && $0.fate == .accepted } == 1 && isReportedAccepted(push, in: story)
    }

    private func isReportedAccepted(_ push: Push, in story: Story) -> Bool {
        story.reportedList.contains { record in
            if case .notification(let reported) = record {
                reported.deliveries.contains { $0.id == push.id && $0.outcome == .accepted }
            } else {
                false
            }
        }
    }

    private func notifications(of story: Story) -> [Int] {
        story.reportedList.indices.filter { if case .notification = story.reportedList[$0] { true } else { false } }
    }

    private func change(_ story: inout Story, _ random: inout SeededGenerator, _ body: (inout ReportedNotification) -> Void) -> Bool {
        guard let index = notifications(of: story).randomElement(using: &random),
            case .notification(var reported) = story.reportedList[index]
        else {
            return false
        }
        body(&reported)
        story.reportedList[index] = .notification(reported)
        return true
    }

    /// The platform overlooks a device that no request touched: neither a push nor a receipt.
    private func leaveADeviceOut(_ story: inout Story, _ random: inout SeededGenerator) -> Promise? {
        let user = "zoe"
        let device = 9000 + Int(random.number(0...99))
        story.register(user, device, at: random.number(100_000...200_000))
        story.send(9000, to: user, at: 210_000)
        story.report(9000, [], state: random.chance(0.5) ? .noTargets : .completed)
        return .lost
    }
}
