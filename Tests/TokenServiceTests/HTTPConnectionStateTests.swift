import NIOCore
import Testing

@testable import TokenServiceAPI

/// The order of events on a connection, without a connection: `Hostile` and `ConnectionTests` try the same with bytes.
@Suite("What may happen on a connection")
final class HTTPConnectionStateTests {
    private static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
    private var state = HTTPConnectionState(bodyTimeout: .seconds(30))

    private func beginRequest(_ request: HTTPConnectionState.Request = .init()) -> HTTPConnectionState.Actions {
        state.headArrived(request)
    }

    private func wholeRequest() {
        #expect(beginRequest() == .forward)
        #expect(state.bodyEnded() == [.forward, .stopTimer])
    }

    private func answer(_ isSuccess: Bool = true) -> HTTPConnectionState.Actions {
        #expect(state.answerBegins(isSuccess: isSuccess, hasCoding: false) == .forward)
        return state.answerEnds()
    }

    @Test("Requests and answers pass") func plainExchange() {
        for _ in 0..<3 {
            wholeRequest()
            #expect(state.readCompleted(at: Self.start) == [])
            #expect(answer() == .forward)
        }
    }

    @Test("Nothing passes after a refusal") func afterRefusal() {
        #expect(beginRequest(.init(isAmbiguous: true)) == [.refuse, .close])
        #expect(beginRequest() == [])
        #expect(state.bodyArrived(1, at: Self.start) == [] && state.bodyEnded() == [])
        #expect(state.parserFailed() == [])
    }

    @Test("If the parser fails behind a whole request, that request still gets its answer") func faultBehindRequest() {
        wholeRequest()
        #expect(state.parserFailed() == .passFault)
        #expect(state.answerBegins(isSuccess: true, hasCoding: false) == .forwardAsLast)
        #expect(state.answerEnds() == [.forward, .close])
    }

    @Test("The last request gets the last answer") func lastRequest() {
        #expect(beginRequest(.init(isLast: true)) == .forwardAsLast)
        #expect(state.bodyEnded() == [.forward, .stopTimer])
        #expect(state.answerBegins(isSuccess: true, hasCoding: false) == .forwardAsLast)
        // The server above closes: it knows that the request is the last.
        #expect(state.answerEnds() == .forward)
    }

    @Test("The connection does not write the end of an answer to HEAD of a stream") func headOfStream() {
        wholeRequest()
        #expect(state.answerBegins(isSuccess: true, hasCoding: true) == .forward)
        #expect(state.answerEnds() == [])
    }

    // MARK: Bodies

    @Test("A body that stops fails") func stoppedBody() {
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

    @Test("A portion of a body gives the client more time") func moreTime() {
        #expect(beginRequest() == .forward)
        #expect(state.readCompleted(at: Self.start) == .startTimer)
        state.readWanted(at: Self.start)
        #expect(state.bodyArrived(HTTPConnectionState.portion, at: Self.start + .seconds(20)) == .forward)
        #expect(state.timerFired(at: Self.start + .seconds(30)) == .startTimer && state.wait == .seconds(20))
        #expect(state.timerFired(at: Self.start + .seconds(50)) == .failBody)
    }

    @Test("Time in which the service does not read does not count against the client") func pausedReading() {
        #expect(beginRequest() == .forward)
        #expect(state.readCompleted(at: Self.start) == .startTimer)
        #expect(state.timerFired(at: Self.start + .seconds(30)) == .startTimer && state.wait == .seconds(30))
        state.readWanted(at: Self.start + .seconds(40))
        #expect(state.timerFired(at: Self.start + .seconds(60)) == .startTimer && state.wait == .seconds(10))
        #expect(state.timerFired(at: Self.start + .seconds(70)) == .failBody)
    }

    @Test("The connection throws a body away that comes after its answer") func lateBody() {
        #expect(beginRequest(.init(bodyBytes: HTTPConnectionState.maximumThrownAway)) == .forward)
        #expect(answer(false) == .forward)
        #expect(state.bodyArrived(HTTPConnectionState.maximumThrownAway, at: Self.start) == .forward)
        #expect(state.bodyEnded() == [.forward, .stopTimer])
        wholeRequest()
        #expect(answer() == .forward)
    }

    @Test("A refusal is the last answer if the connection will not take the rest of the body", arguments: [nil, 2 + (32 << 20)])
    func longRest(length: Int?) {
        #expect(beginRequest(.init(bodyBytes: length)) == .forward)
        #expect(state.bodyArrived(1, at: Self.start) == .forward)
        #expect(state.answerBegins(isSuccess: false, hasCoding: false) == .forwardAsLast)
        #expect(state.answerEnds() == [.forward, .closeOutput])
        #expect(state.bodyArrived(HTTPConnectionState.maximumThrownAway, at: Self.start) == .forward)
        var shorter = state
        #expect(shorter.bodyEnded() == [.forward, .stopTimer, .close])
        #expect(state.bodyArrived(1, at: Self.start) == [.forward, .close])
    }

    @Test("A success is written while the body comes, however long it is") func longSuccess() {
        #expect(beginRequest(.init(bodyBytes: nil)) == .forward)
        #expect(answer() == .forward)
    }

    // MARK: 100 Continue

    private static let hesitant = HTTPConnectionState.Request(awaitsContinue: true)

    @Test("The connection asks once for a body that the handler reads") func askedOnce() {
        #expect(beginRequest(Self.hesitant) == .forward)
        #expect(state.bodyWanted() == .sendContinue)
        #expect(state.bodyWanted() == [])
        #expect(state.bodyEnded() == [.forward, .stopTimer])
        #expect(answer() == .forward)
    }

    @Test("The connection does not ask for a body that has come already") func arrivedBody() {
        #expect(beginRequest(Self.hesitant) == .forward)
        #expect(state.bodyArrived(1, at: Self.start) == .forward)
        #expect(state.bodyWanted() == [])
    }

    @Test("A successful answer asks for the body") func successfulAnswer() {
        #expect(beginRequest(Self.hesitant) == .forward)
        #expect(state.answerBegins(isSuccess: true, hasCoding: false) == [.sendContinue, .forward])
    }

    @Test("A refusal in place of 100 Continue ends the connection") func refusedBody() {
        #expect(beginRequest(Self.hesitant) == .forward)
        #expect(state.answerBegins(isSuccess: false, hasCoding: false) == .forwardAsLast)
        #expect(state.answerEnds() == [.forward, .closeOutput])
        #expect(state.bodyArrived(1, at: Self.start) == .forward)
        #expect(state.bodyEnded() == [.forward, .stopTimer, .close])
        #expect(beginRequest() == [])
    }

    @Test("100 Continue waits until its request is the next one to be answered") func pipelinedContinue() {
        wholeRequest()
        #expect(beginRequest(Self.hesitant) == .forward)
        #expect(state.bodyWanted() == [])
        #expect(answer() == .forward)
        #expect(state.bodyWanted() == .sendContinue)
    }
}
