/// One request and its answer.
struct ClientStream {
    /// 0: the slot is free.
    var stream: Int32 = 0
    /// Among the session's bodies; -1 when all of it has been sent, or there is none.
    var body = -1
    /// How much of the body has not been given out.
    var bodyLeft = 0
    /// The position of the request's end in the output; -1 while it has not been given out.
    var endPosition: Int64 = -1
    var status = 0
    var fields = HeaderList()
    var fieldBytes = 0
    var receivedBytes = 0
    /// The status of an answer that is reported together with its end; 0: there is none.
    var bareStatus: Int32 = 0

    mutating func begin(_ stream: Int32, body: Int, bytes: Int) {
        self.stream = stream
        self.body = body
        bodyLeft = bytes
        endPosition = -1
        status = 0
        receivedBytes = 0
        bareStatus = 0
    }
}
