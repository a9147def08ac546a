/// One request that has been handed to HTTP/2 and has no answer yet.
struct InFlight {
    /// Place in the connection's open shares.
    let share: Int
    /// Place in the batch's requests.
    let request: Int
    /// The caller's number of the request; the answer has it too.
    let index: Int
    /// UNIX milliseconds.
    let sentAt: Int64
    let deadline: ContinuousClock.Instant
    /// 0 until the answer's headers are here.
    var status = 0
}
