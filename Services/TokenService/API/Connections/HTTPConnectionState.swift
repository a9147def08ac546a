import NIOCore
import NIOHTTP1
import TokenServiceApps

/// The rules for one HTTP/1.1 connection: a value that takes events and returns actions.
///
/// A request that is too large, or not plainly one request, is refused; the service does not wait for a client that is too slow, and does
/// not ask for a body that it will not read. ``ConnectionHandler`` applies the actions.
struct HTTPConnectionState {
    /// The actions to do now, in the order in which they are listed here.
    struct Actions: OptionSet {
        let rawValue: UInt16

        /// Write `100 Continue`.
        static let sendContinue = Actions(rawValue: 1)
        /// Pass on the received or written part.
        static let forward = Actions(rawValue: 1 << 1)
        /// The request is forwarded with `Connection: close` among its fields.
        static let forwardAsLast = Actions(rawValue: 1 << 2)
        static let stopTimer = Actions(rawValue: 1 << 3)
        /// Call ``HTTPConnectionState/timerFired(at:)`` after ``HTTPConnectionState/wait``.
        static let startTimer = Actions(rawValue: 1 << 4)
        /// Report to the body's reader that the body did not come in time.
        static let failBody = Actions(rawValue: 1 << 5)
        /// Answer instead of the service: the head is too large, or the bytes are not clearly one request.
        static let refuse = Actions(rawValue: 1 << 6)
        /// Let the server above answer the fault and close.
        static let passFault = Actions(rawValue: 1 << 7)
        /// Towards the client; the service still reads.
        static let closeOutput = Actions(rawValue: 1 << 8)
        static let close = Actions(rawValue: 1 << 9)
    }

    /// The facts about a request that the rules need.
    struct Request: Equatable {
        /// Two servers in a row could disagree on its meaning or its end.
        var isAmbiguous = false
        /// No request can follow on the connection.
        var isLast = false
        /// The client waits for `100 Continue` before it sends the body.
        var awaitsContinue = false
        /// Bytes of its body; `nil` if its head does not say how many.
        var bodyBytes: Int? = 0
    }

    /// Bytes that must arrive within each ``bodyTimeout``.
    static let portion = 65_536
    /// Bytes of a body that are thrown away after its answer: closing earlier could cost a client the answer. As much as the largest body
    /// that any route takes, so that a client that is refused in the middle of it can read why.
    static let maximumThrownAway = 32 << 20

    let bodyTimeout: TimeAmount
    /// The time until the timer is to fire.
    private(set) var wait = TimeAmount.zero

    private var requestsBegun = 0
    private var answersEnded = 0
    private var isBodyArriving = false
    private var portionBytes = 0
    private var thrownAway = 0
    /// Bytes of the body that are still to come, at most.
    private var bodyLeft = 0
    private var deadline = NIODeadline.distantFuture
    /// When the service stopped reading: the client's time does not run meanwhile.
    private var pausedAt: NIODeadline?
    private var isTimerRunning = false
    /// The answer that is being written is a stream to HEAD: the encoder would end it with a chunk.
    private var endsWithHead = false
    /// The connection ends with the answer.
    private var isEnding = false
    /// The number of the request after whose answer the connection reads no more.
    private var lastRequest = Int.max
    /// The request whose client waits for `100 Continue`, until a part of its body has come.
    private var hesitant: Int?
    /// The last request was refused before its body, which may still come: the end of the body, or another request, ends the connection.
    private var endsWithBody = false
    /// Bytes after a fault in the framing are no request.
    private var isDeaf = false

    init(bodyTimeout: TimeAmount) { self.bodyTimeout = bodyTimeout }

    private var isAnswered: Bool { requestsBegun == answersEnded }

    /// Whether the connection may answer the request whose head came last with a refusal: every earlier one is answered, the rest of its
    /// body is short enough to be thrown away, and requests may follow.
    var mayRefuse: Bool {
        requestsBegun == answersEnded + 1 && bodyLeft <= CallBody.maximumBytes && hesitant == nil && lastRequest == .max && !isEnding
    }

    // MARK: Requests

    mutating func headArrived(_ request: Request) -> Actions {
        if isDeaf { return [] }
        if request.isAmbiguous {
            defer { isDeaf = true }
            return parserFailed()
        }
        requestsBegun += 1
        hesitant = request.awaitsContinue ? requestsBegun : nil
        isBodyArriving = true
        portionBytes = 0
        thrownAway = 0
        bodyLeft = request.bodyBytes ?? .max
        deadline = .distantFuture
        guard request.isLast else { return .forward }
        lastRequest = min(lastRequest, requestsBegun)
        // The server above understands no other sign that this is the last request.
        return .forwardAsLast
    }

    mutating func bodyArrived(_ bytes: Int, at now: NIODeadline) -> Actions {
        if isDeaf { return [] }
        hesitant = nil
        bodyLeft -= bytes
        portionBytes += bytes
        if portionBytes >= Self.portion {
            portionBytes = 0
            if deadline != .distantFuture { deadline = now + bodyTimeout }
        }
        guard isAnswered else { return .forward }
        thrownAway += bytes
        return thrownAway > Self.maximumThrownAway ? [.forward, .close] : .forward
    }

    mutating func bodyEnded() -> Actions {
        if isDeaf { return [] }
        hesitant = nil
        isBodyArriving = false
        isDeaf = endsWithBody
        isTimerRunning = false
        return endsWithBody && isAnswered ? [.forward, .stopTimer, .close] : [.forward, .stopTimer]
    }

    /// All received bytes were passed on.
    mutating func readCompleted(at now: NIODeadline) -> Actions {
        guard isBodyArriving else { return [] }
        pausedAt = now
        if deadline == .distantFuture { deadline = now + bodyTimeout }
        return isTimerRunning ? [] : startTimer(bodyTimeout)
    }

    /// The service wants to read on.
    mutating func readWanted(at now: NIODeadline) {
        guard let pausedAt else { return }
        if deadline != .distantFuture { deadline = deadline + (now - pausedAt) }
        self.pausedAt = nil
    }

    mutating func timerFired(at now: NIODeadline) -> Actions {
        isTimerRunning = false
        guard isBodyArriving else { return [] }
        if pausedAt != nil { return startTimer(bodyTimeout) }
        if now < deadline { return startTimer(deadline - now) }
        isEnding = true
        // The reader of the body gets the error, and answers.
        return isAnswered ? .close : .failBody
    }

    private mutating func startTimer(_ amount: TimeAmount) -> Actions {
        isTimerRunning = true
        wait = amount
        return .startTimer
    }

    // MARK: Answers

    /// - Parameter hasCoding: The answer has a `Transfer-Encoding` already: it is to HEAD, and of unknown length.
    mutating func answerBegins(isSuccess: Bool, hasCoding: Bool) -> Actions {
        var actions: Actions = []
        if hesitant == answersEnded + 1 {
            hesitant = nil
            // The answer begins, and the service has not asked for the body. A success is written while the body is read.
            if isSuccess {
                actions = .sendContinue
            } else {
                lastRequest = min(lastRequest, requestsBegun)
                endsWithBody = true
            }
        }
        // The connection closes in the middle of the rest: the client must not send its next request behind it.
        if !isSuccess, isBodyArriving, requestsBegun == answersEnded + 1, bodyLeft > Self.maximumThrownAway {
            lastRequest = min(lastRequest, requestsBegun)
            endsWithBody = true
        }
        endsWithHead = hasCoding
        let last = isEnding ? requestsBegun : lastRequest
        return actions.union(answersEnded + 1 >= last ? .forwardAsLast : .forward)
    }

    mutating func answerEnds() -> Actions {
        answersEnded += 1
        let actions: Actions = endsWithHead ? [] : .forward
        guard isEnding || endsWithBody, isAnswered else { return actions }
        return actions.union(isEnding || !isBodyArriving ? .close : .closeOutput)
    }

    /// The connection itself answered the request whose head came last (``mayRefuse``).
    mutating func refused() { answersEnded += 1 }

    /// The service reads the body of the request that it is answering.
    mutating func bodyWanted() -> Actions {
        guard hesitant == answersEnded + 1 else { return [] }
        hesitant = nil
        return .sendContinue
    }

    // MARK: Faults

    /// Requests that came whole are answered first.
    mutating func parserFailed() -> Actions {
        // Bytes after a refusal are ignored.
        if isEnding { return isDeaf ? [] : .passFault }
        if !isAnswered {
            isEnding = true
            return .passFault
        }
        if endsWithBody { return .close }
        isEnding = true
        isDeaf = true
        return [.refuse, .close]
    }
}

extension HTTPConnectionState.Request {
    /// Marks as ambiguous a head that the HTTP parser lets pass: any by which two servers in a row could disagree on where a request ends,
    /// or whom it is for.
    init(_ head: HTTPRequestHead) {
        let isOld = head.version != .http1_1
        isAmbiguous = Self.isFramingAmbiguous(head.headers, isOld: isOld) || !Self.namesOneHost(head.headers, isOld: isOld)
        // A client of HTTP/1.0 takes the end of the connection for the end of the answer (RFC 9112, section 9.3); if it asks for more
        // requests, the answer refuses them.
        isLast =
            isOld || head.method == .CONNECT || head.headers.contains(name: "Upgrade")
            || head.headers[canonicalForm: "Connection"].contains { $0.lowercased() == "close" }
        // A client of HTTP/1.0 knows no interim answer (RFC 9110, section 10.1.1).
        awaitsContinue = !isOld && head.headers.first(name: "Expect")?.lowercased() == "100-continue"
        bodyBytes =
            head.headers.contains(name: "Transfer-Encoding") ? nil : head.headers.first(name: "Content-Length").flatMap { Int($0) } ?? 0
    }

    /// Codings that this server does not decode (`gzip, chunked`), a length by an empty or a second coding. With HTTP/1.0, any coding: a
    /// proxy of that version may have seen another end (RFC 9112, section 6.1).
    private static func isFramingAmbiguous(_ headers: HTTPHeaders, isOld: Bool) -> Bool {
        let codings = headers["Transfer-Encoding"]
        return !codings.isEmpty && (isOld || codings.count > 1 || codings[0].lowercased() != "chunked")
    }

    /// Exactly one well-formed `Host` (RFC 9112, section 3.2), which HTTP/1.0 may leave out.
    private static func namesOneHost(_ headers: HTTPHeaders, isOld: Bool) -> Bool {
        let hosts = headers["Host"]
        guard let host = hosts.first else { return isOld }
        return hosts.count == 1 && isHost(host.utf8.drop(while: isBlank))
    }

    /// `uri-host [ ":" port ]` (RFC 9110 section 7.2, RFC 3986 section 3.2.2); empty where a target names no authority.
    private static func isHost(_ text: Substring.UTF8View) -> Bool {
        var rest = text
        if rest.first == UInt8(ascii: "[") {
            rest = rest.dropFirst().drop { isOfName($0) || $0 == UInt8(ascii: ":") }
            guard rest.popFirst() == UInt8(ascii: "]") else { return false }
        } else {
            rest = rest.drop(while: isOfName)
        }
        if rest.first == UInt8(ascii: ":") {
            rest = rest.dropFirst().drop { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        }
        return rest.allSatisfy(isBlank)
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }

    /// Unreserved characters, sub-delimiters and the percent sign.
    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: "-._~!$&'()*+,;=%".utf8.contains(byte)
        }
    }
}
