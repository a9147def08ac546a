import PushModel
import Testing

@testable import Dispatcher

@Suite("A job is acknowledged when its work and its messages are done")
struct SettlementLedgerTests {
    @Test("The ledger returns a receipt once, when the work and every message are done, in any order", arguments: 0..<20)
    func settlesOnce(seed: Int) {
        var random = SplitMix64(seed: UInt64(seed))
        for _ in 0..<500 {
            var ledger = SettlementLedger<Int>()
            var owed: [UInt64: Int] = [:]
            for deliveryTag in 0..<Int.random(in: 1...6, using: &random) { owed[ledger.enter(deliveryTag, of: .now)] = 1 }
            for _ in 0..<Int.random(in: 0...10, using: &random) {
                if let job = owed.keys.randomElement(using: &random) {
                    ledger.owe(job)
                    owed[job, default: 0] += 1
                }
            }
            let jobs = owed.count
            var settled: [Int] = []
            while let job = owed.filter({ $0.value > 0 }).keys.randomElement(using: &random) {
                ledger.pay(job)
                owed[job, default: 0] -= 1
                ledger.takeSettled { settled += $1 }
                #expect(settled.count == owed.count { $0.value == 0 })
            }
            ledger.pay(1)
            ledger.takeSettled { settled += $1 }
            #expect(settled.count == jobs && Set(settled).count == jobs)
            #expect(ledger.isEmpty)
        }
    }

    @Test("A job that was forgotten is never settled")
    func forgets() {
        var ledger = SettlementLedger<String>()
        let (first, other) = (ledger.enter("first", of: .now), ledger.enter("other", of: .bulk))
        ledger.forget(.now)
        ledger.pay(first)
        ledger.pay(other)
        var settled: [String] = []
        ledger.takeSettled { settled += $1 }
        #expect(settled == ["other"], "another lane's connection still holds")
    }

    @Test("A set of deliveries holds as many as a job may have")
    func holdsAll() {
        var set = DeliverySet(all: PushJob.maximumDeliveries)
        #expect(set.indices == Array(0..<PushJob.maximumDeliveries))
        let wasThere = [set.remove(99), set.remove(99)]
        #expect(wasThere == [true, false])
        #expect(!set.contains(-1))
        #expect(!set.contains(500))
        set.subtract(DeliverySet(all: 98))
        #expect(set.indices == [98])
        #expect(DeliverySet(all: DeliverySet.capacity).count == DeliverySet.capacity)
        #expect(PushJob.maximumDeliveries <= DeliverySet.capacity)
    }
}
