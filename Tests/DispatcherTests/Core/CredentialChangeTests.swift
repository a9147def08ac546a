import OpenSSL
import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("Credentials that change while jobs are under way")
struct CredentialChangeTests {
    private func entry(_ name: String, apps: [AppSlug], topics: [String] = [], digest: UInt8 = 0) throws -> CredentialsEntry {
        let kind = APNsCredential.Kind.token(teamID: "TEAMIDTEAM", keyID: "KEYIDKEYID", key: try ES256PrivateKey.generate())
        return CredentialsEntry(
            credential: APNsCredential(name: name, kind: kind), environments: [.production], apps: apps, topics: topics, digest: [digest])
    }

    private func plan(_ entries: CredentialsEntry..., after previous: CredentialPlan? = nil) -> CredentialPlan {
        CredentialPlan(CredentialsFile(entries: entries), after: previous)
    }

    /// The plan that follows the bench's pools 0 to 2.
    private func plan(of bench: CoreBench, _ entries: CredentialsEntry...) throws -> CredentialPlan {
        var previous = CredentialPlan(CredentialsFile(entries: []))
        // The pool numbers that the bench has used.
        for round in 0..<3 { previous = plan(try entry("x\(round)", apps: [Fixture.other]), after: previous) }
        return CredentialPlan(CredentialsFile(entries: entries), after: previous)
    }

    @Test("An unchanged credential keeps its pool; a changed one gets another number, and no number is used twice")
    func numbers() throws {
        let (shop, other) = (try entry("shop", apps: [Fixture.shop]), try entry("other", apps: [Fixture.other]))
        let first = plan(shop, other)
        #expect(first.pools.map(\.number) == [0, 1])
        let changed = try entry("shop", apps: [Fixture.shop], digest: 1)
        let second = plan(changed, other, after: first)
        #expect(second.pools.map(\.number) == [2, 1])
        let third = plan(shop, after: second)
        #expect(third.pools.map(\.number) == [3])
        var directory = CredentialDirectory(first)
        #expect(directory.adopt(second) == [0])
        #expect(directory.adopt(third) == [1, 2])
        #expect(directory.adopt(third).isEmpty)
    }

    @Test("A credential for some topics serves these, the one without topics the others")
    func topics() throws {
        var directory = CredentialDirectory(
            plan(try entry("general", apps: [Fixture.shop]), try entry("calls", apps: [Fixture.shop], topics: ["com.example.shop.voip"])))
        let shop = directory.number(of: Fixture.shop)
        #expect(directory.pool(app: shop, .production, topic: "com.example.shop") == 0)
        #expect(directory.pool(app: shop, .production, topic: "com.example.shop.voip") == 1)
        #expect(directory.pool(app: shop, .sandbox, topic: "com.example.shop.voip") == nil)
        let alone = plan(try entry("calls", apps: [Fixture.shop], topics: ["com.example.shop.voip"]))
        directory.adopt(alone)
        #expect(directory.number(of: Fixture.shop) == shop, "an app keeps its number")
        #expect(directory.pool(app: shop, .production, topic: "com.example.shop") == nil)
    }

    @Test("Deliveries that the old pool did not send go to the new one in a second, and sent ones are not sent again")
    func movesOn() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2)]))
        let old = try #require(bench.submitted.first)
        bench.handle(.credentialsChanged(try plan(of: bench, try entry("shop", apps: [Fixture.shop], digest: 9))))
        #expect(Set(bench.retired) == [0, 1, 2])
        bench.finishNext { $0.index == 0 ? .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil) : .notSent(.shuttingDown) }
        let back = bench.retries(after: .oneSecond)
        #expect(back.map(\.deliveries) == [[Fixture.delivery(2)]] && back.map(\.attempt) == [0])
        while !bench.published.isEmpty { bench.confirmNext() }
        #expect(bench.acknowledged.map(\.tag) == [1])
        bench.take(try #require(back.first), tag: 2)
        let new = try #require(bench.submitted.first)
        #expect(new.pool != old.pool)
        #expect(new.batch.requests.map(\.id) == [Fixture.delivery(2).id])
    }

    @Test("A job for an app that got no credential waits, and a fence from before holds once one comes")
    func fencesBeforeCredentials() throws {
        let bench = try CoreBench()
        let installation = PushID.random()
        bench.obey(.fence(app: Fixture.unconfigured, installation: installation, epochsBelow: 5, at: bench.now))
        let job = Fixture.job(
            [Fixture.delivery(1, installation: installation, ownerEpoch: 4), Fixture.delivery(2)], app: Fixture.unconfigured)
        bench.handle(.credentialsChanged(try plan(of: bench, try entry("late", apps: [Fixture.unconfigured], digest: 9))))
        bench.take(job)
        #expect(bench.events.map(\.outcome) == [.fenced])
        #expect(bench.submitted.map { $0.batch.requests.map(\.index) } == [[1]])
        let batch = try #require(bench.submitted.first?.batch)
        #expect(bench.gate.stopReason(for: batch.requests[0], of: batch) == nil)
    }

    @Test("A dispatcher that stops takes over no credentials")
    func notWhileStopping() throws {
        let bench = try CoreBench()
        bench.handle(.stop)
        bench.handle(.credentialsChanged(try plan(of: bench, try entry("shop", apps: [Fixture.shop], digest: 9))))
        #expect(bench.retired.isEmpty)
    }
}
