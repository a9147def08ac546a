import Testing

@testable import APNs

@Suite("Requests in flight by stream")
struct InFlightTableTests {
    @Test func itBehavesAsADictionaryUnderAnyOrderOfAnswers() {
        var random = SeededGenerator(state: 99)
        var table = InFlightTable(minimumCapacity: 8)
        var model: [Int32: Int] = [:]
        var next: Int32 = 1
        for step in 0..<20_000 {
            if model.count < 1000, Bool.random(using: &random) || model.isEmpty {
                table.insert(next, InFlight(share: Int(next), request: step, index: 0, sentAt: 0, deadline: start))
                model[next] = step
                next += 2
            } else if let stream = Int.random(in: 0..<3, using: &random) == 0 ? model.keys.min() : model.keys.randomElement(using: &random)
            {
                let isKnown = table.setStatus(200, of: stream)
                #expect(isKnown)
                let removed = table.remove(stream)
                #expect(removed?.request == model[stream])
                #expect(removed?.status == 200)
                model[stream] = nil
                let again = (table.remove(stream) != nil, table.setStatus(200, of: stream))
                #expect(again == (false, false))
            }
            #expect(table.count == model.count)
        }
        var left: [Int32: Int] = [:]
        table.forEach { left[$0] = $1.request }
        #expect(left == model)
    }

    @Test func aStreamThatHangsWhileThousandsPassCostsNoRoom() {
        var table = InFlightTable(minimumCapacity: 16)
        table.insert(1, InFlight(share: 0, request: 0, index: 0, sentAt: 0, deadline: start))
        var stream: Int32 = 3
        for _ in 0..<100_000 {
            table.insert(stream, InFlight(share: 1, request: 1, index: 0, sentAt: 0, deadline: start))
            let removed = table.remove(stream)
            #expect(removed != nil)
            stream += 2
        }
        let hung = table.remove(1)
        #expect(hung?.share == 0)
        #expect(table.count == 0)
    }
}
