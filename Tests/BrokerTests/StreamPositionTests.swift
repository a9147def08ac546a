import Testing

@testable import Broker

@Suite("How far a stream was read")
struct StreamPositionTests {
    /// Messages whose ID is their offset.
    private func arrive(_ offsets: ClosedRange<Int64>, _ position: inout StreamPosition) -> [Bool] {
        offsets.map { position.arrived($0, messageID: "\($0)") }
    }

    /// Read up to offset 21, and begun anew.
    private func begunAnew() -> StreamPosition {
        var position = StreamPosition()
        let start = position.begin()
        let new = arrive(0...21, &position)
        let restart = position.begin()
        #expect(start == nil && new.allSatisfy { $0 } && restart == 21 && position.standing == .beginning)
        return position
    }

    @Test func goesOnAtItsLastMessage() {
        var position = begunAnew()
        // The chunk of 21 begins at 19.
        #expect(arrive(19...21, &position) == [false, false, false])
        #expect(position.standing == .certain)
        #expect(arrive(22...23, &position) == [true, true])
    }

    @Test(arguments: [(21, "other"), (22, "22"), (500, "500")] as [(Int64, String)])
    func isLostWhenSomethingElseComesInItsPlace(offset: Int64, messageID: String) {
        var position = begunAnew()
        let isNew = position.arrived(offset, messageID: messageID)
        #expect(!isNew && position.standing == .lost)
        #expect(arrive(501...502, &position) == [false, false])
        position.forget()
        let start = position.begin()
        #expect(start == nil && position.standing == .certain)
        #expect(arrive(0...1, &position) == [true, true])
    }

    @Test func readsAgainWhatWasPassedOver() {
        var position = StreamPosition()
        #expect(arrive(0...3, &position) == [true, true, true, true])
        #expect(arrive(6...7, &position) == [false, false])
        #expect(position.standing == .incomplete)
        let start = position.begin()
        #expect(start == 3)
        #expect(arrive(3...7, &position) == [false, true, true, true, true])
        #expect(position.standing == .certain)
    }

    /// Another leader has fewer messages than were read, and others in their place.
    @Test func noticesOffsetsThatComeAgain() {
        var position = StreamPosition()
        #expect(arrive(0...9, &position).allSatisfy { $0 })
        let isNew = position.arrived(7, messageID: "new 7")
        #expect(!isNew)
        #expect(position.standing == .incomplete)
        let start = position.begin()
        #expect(start == 9)
        let isOld = position.arrived(9, messageID: "new 9")
        #expect(!isOld)
        #expect(position.standing == .lost)
    }

    /// Offsets also count what is no message.
    @Test func believesAGapThatIsThereAgain() {
        var position = StreamPosition()
        _ = arrive(0...3, &position)
        _ = arrive(5...5, &position)
        let start = position.begin()
        #expect(start == 3)
        #expect(arrive(3...3, &position) == [false])
        #expect(arrive(5...6, &position) == [true, true])
        #expect(position.standing == .certain)
    }

    @Test func isCertainOfAStreamOfWhichNothingWasRead() {
        var position = StreamPosition()
        let start = position.begin()
        #expect(start == nil && position.standing == .certain)
        #expect(arrive(7...8, &position) == [true, true])
    }
}
