/// The limits that a request meets at its admission, and again when its body is read.
struct AdmissionLimits: Sendable {
    let rates: RequestRates
    /// Requests of each caller, from their admission to their answer.
    let callers: SharedLimit
    let shedding: LoadShedding
    /// Bytes of large bodies.
    let bodies: SharedLimit
}
