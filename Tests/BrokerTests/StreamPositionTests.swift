import Testing

@testable import Broker

@Suite("How far a stream was read")
struct StreamPositionTests {
    /// Gives the position messages whose id is their offset.
    private func arrive(_ offsets: ClosedRange<Int64>, _ position: inout StreamPosition) -> [Bool] {
        offsets.map { position.arrived($0, messageID: "\($0)") }
    }

    /// A position that was read up to offset 21 and then began again.
    private func begunAnew() -> StreamPosition {
        var position = StreamPosition()
        let start = position.begin()
        let new = arrive(0...21, &position)
        let restart = position.begin()
        #expect(start == nil && new.allSatisfy { $0 } && restart == 21 && position.standing == .beginning)
        return position
    }

    @Test("The position continues after its last message") func continues() {
        var position = begunAnew()
        // The chunk of 21 begins at 19.
        #expect(arrive(19...21, &position) == [false, false, false])
        #expect(position.standing == .certain)
        #expect(arrive(22...23, &position) == [true, true])
    }

    @Test(
        "The position is lost when another message comes in its place",
        arguments: [(21, "other"), (22, "22"), (500, "500")] as [(Int64, String)])
    func otherMessage(offset: Int64, messageID: String) {
        var position = begunAnew()
        let isNew = position.arrived(offset, messageID: messageID)
        #expect(!isNew && position.standing == .lost)
        #expect(arrive(501...502, &position) == [false, false])
        position.forget()
        let start = position.begin()
        #expect(start == nil && position.standing == .certain)
        #expect(arrive(0...1, &position) == [true, true])
    }

    @Test("The position is lost when several readers in a row get nothing although there is more") func silentReaders() {
        var position = begunAnew()
        for _ in 0..<2 {
            position.gaveNothing()
            #expect(position.standing == .beginning)
            let start = position.begin()
            #expect(start == 21)
        }
        // A message to the third reader resets the count of silent readers.
        #expect(arrive(21...22, &position) == [false, true])
        position.gaveNothing()
        for round in 0..<3 {
            let start = position.begin()
            #expect(start == 22 && position.standing == .beginning, "\(round)")
            position.gaveNothing()
        }
        #expect(position.standing == .lost)
        position.forget()
        let start = position.begin()
        #expect(start == nil && position.standing == .certain)
    }

    @Test("The position of a stream that was never read is certain") func unreadStream() {
        var position = StreamPosition()
        let start = position.begin()
        #expect(start == nil && position.standing == .certain)
        #expect(arrive(7...8, &position) == [true, true])
    }
}
