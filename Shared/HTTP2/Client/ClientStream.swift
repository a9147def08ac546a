/// One request and its answer.
struct ClientStream {
    /// 0: the slot is free.
    var stream: Int32 = 0
    var body = OutgoingBody()
    var hasBody = false
    /// Where the request's end lies in the output; -1 while it has not been given out.
    var endPosition: Int64 = -1
    var status = 0
    var fields = HeaderList()
    var fieldBytes = 0
    var receivedBytes = 0

    mutating func begin(_ stream: Int32, _ bytes: [UInt8]) {
        self.stream = stream
        body.bytes = bytes
        body.offset = 0
        hasBody = !bytes.isEmpty
        endPosition = -1
        status = 0
        receivedBytes = 0
    }

    /// Forgets what the stream held; a shared payload is let go.
    mutating func end() {
        stream = 0
        body.bytes = []
    }
}
