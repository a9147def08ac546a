import NIOCore
import Testing

@testable import TokenService

/// The order of events on a connection, without a connection: `Hostile` and `ConnectionTests` try the same with bytes.
@Suite("What may happen on a connection")
final class ConnectionStateTests {
    private static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
    private var state = ConnectionState(bodyTimeout: .seconds(30))

    private func beginRequest(_ request: ConnectionState.Request = .init()) -> ConnectionState.Actions {
        state.headArrived(request)
    }

    private func wholeRequest() {
        #expect(beginRequest() == .forward)
        #expect(state.bodyEnded() == [.forward, .stopTimer])
    }

    private func answer(_ isSuccess: Bool = true) -> ConnectionState.Actions {
        #expect(state.answerBegins(isSuccess: isSuccess, hasCoding: false) == .forward)
        return state.answerEnds()
    }

    @Test func requestsAndAnswersPass() {
        for _ in 0..<3 {
            wholeRequest()
            #expect(state.readCompleted(at: Self.start) == [])
            #expect(answer() == .forward)
        }
    }

    @Test func nothingPassesAfterARefusal() {
        #expect(beginRequest(.init(isAmbiguous: true)) == [.refuse, .close])
        #expect(beginRequest() == [])
        #expect(state.bodyArrived(1, at: Self.start) == [] && state.bodyEnded() == [])
        #expect(state.parserFailed() == [])
    }

    @Test func aFaultBehindAWholeRequestLetsItBeAnswered() {
        wholeRequest()
        #expect(state.parserFailed() == .passFault)
        #expect(state.answerBegins(isSuccess: true, hasCoding: false) == .forwardAsLast)
        #expect(state.answerEnds() == [.forward, .close])
    }

    @Test func theLastRequestHasTheLastAnswer() {
        #expect(beginRequest(.init(isLast: true)) == .forwardAsLast)
        #expect(state.bodyEnded() == [.forward, .stopTimer])
        #expect(state.answerBegins(isSuccess: true, hasCoding: false) == .forwardAsLast)
        // The server above closes: it was told that the request is the last.
        #expect(state.answerEnds() == .forward)
    }

    @Test func theEndOfAnAnswerToHEADOfAStreamIsNotWritten() {
        wholeRequest()
        #expect(state.answerBegins(isSuccess: true, hasCoding: true) == .forward)
        #expect(state.answerEnds() == [])
    }

    // MARK: Bodies

    @Test func aBodyThatStopsFails() {
        #expect(beginRequest() == .forward)
        #expect(state.readCompleted(at: Self.start) == .startTimer && state.wait == .seconds(30))
        state.readWanted(at: Self.start)
        #expect(state.bodyArrived(10, at: Self.start + .seconds(20)) == .forward)
        #expect(state.readCompleted(at: Self.start + .seconds(20)) == [])
        state.readWanted(at: Self.start + .seconds(20))
        #expect(state.timerFired(at: Self.start + .seconds(30)) == .failBody)
        #expect(state.answerBegins(isSuccess: false, hasCoding: false) == .forwardAsLast)
        #expect(state.answerEnds() == [.forward, .close])
    }

    @Test func aPortionOfABodyBuysTime() {
        #expect(beginRequest() == .forward)
        #expect(state.readCompleted(at: Self.start) == .startTimer)
        state.readWanted(at: Self.start)
        #expect(state.bodyArrived(ConnectionState.portion, at: Self.start + .seconds(20)) == .forward)
        #expect(state.timerFired(at: Self.start + .seconds(30)) == .startTimer && state.wait == .seconds(20))
        #expect(state.timerFired(at: Self.start + .seconds(50)) == .failBody)
    }

    @Test func timeInWhichTheServiceDoesNotReadIsNotTheClients() {
        #expect(beginRequest() == .forward)
        #expect(state.readCompleted(at: Self.start) == .startTimer)
        #expect(state.timerFired(at: Self.start + .seconds(30)) == .startTimer && state.wait == .seconds(30))
        state.readWanted(at: Self.start + .seconds(40))
        #expect(state.timerFired(at: Self.start + .seconds(60)) == .startTimer && state.wait == .seconds(10))
        #expect(state.timerFired(at: Self.start + .seconds(70)) == .failBody)
    }

    @Test func aBodyAfterItsAnswerIsThrownAwayUpToALimit() {
        #expect(beginRequest() == .forward)
        #expect(answer(false) == .forward)
        #expect(state.bodyArrived(ConnectionState.maximumThrownAway, at: Self.start) == .forward)
        #expect(state.bodyArrived(1, at: Self.start) == [.forward, .close])
    }

    // MARK: 100 Continue

    private static let hesitant = ConnectionState.Request(awaitsContinue: true)

    @Test func whoeverReadsTheBodyAsksForItOnce() {
        #expect(beginRequest(Self.hesitant) == .forward)
        #expect(state.bodyWanted() == .sendContinue)
        #expect(state.bodyWanted() == [])
        #expect(state.bodyEnded() == [.forward, .stopTimer])
        #expect(answer() == .forward)
    }

    @Test func aBodyThatCameIsNotAskedFor() {
        #expect(beginRequest(Self.hesitant) == .forward)
        #expect(state.bodyArrived(1, at: Self.start) == .forward)
        #expect(state.bodyWanted() == [])
    }

    @Test func anAnswerThatMeansWellAsksForTheBody() {
        #expect(beginRequest(Self.hesitant) == .forward)
        #expect(state.answerBegins(isSuccess: true, hasCoding: false) == [.sendContinue, .forward])
    }

    @Test func aRefusalInsteadOfTheWordIsTheEnd() {
        #expect(beginRequest(Self.hesitant) == .forward)
        #expect(state.answerBegins(isSuccess: false, hasCoding: false) == .forwardAsLast)
        #expect(state.answerEnds() == [.forward, .closeOutput])
        #expect(state.bodyArrived(1, at: Self.start) == .forward)
        #expect(state.bodyEnded() == [.forward, .stopTimer, .close])
        #expect(beginRequest() == [])
    }

    @Test func theWordIsForTheRequestThatIsAnsweredNow() {
        wholeRequest()
        #expect(beginRequest(Self.hesitant) == .forward)
        #expect(state.bodyWanted() == [])
        #expect(answer() == .forward)
        #expect(state.bodyWanted() == .sendContinue)
    }
}
