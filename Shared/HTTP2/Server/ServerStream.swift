/// One request that comes in and the answer that goes out.
struct ServerStream {
    /// 0: the slot is free.
    var stream: Int32 = 0
    var headers = HeaderList()
    /// As RFC 9113 section 6.5.2 counts them.
    var headerBytes = 0
    var body: [UInt8] = []
    var answer = OutgoingBody()
    /// One stream more than there may be.
    var isTooMany = false
    /// Over a bound: it has been reset, and later bytes are dropped.
    var isRefused = false
    var isAnswered = false
    /// Its body is longer than any may be: it was reported without its end.
    var isCut = false
    /// Cut, and its end has come all the same.
    var isWhole = false

    mutating func begin(_ stream: Int32) {
        self.stream = stream
        headerBytes = 0
        isTooMany = false
        isRefused = false
        isAnswered = false
        isCut = false
        isWhole = false
    }

    /// Large bodies are let go, ordinary ones leave their room to the next user.
    mutating func end() {
        stream = 0
        headers.removeAll()
        if body.capacity > 16_384 { body = [] } else { body.removeAll(keepingCapacity: true) }
        answer.bytes = []
    }
}
