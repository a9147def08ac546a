/// The limits that a request meets at its admission, and again when its body is read.
package struct AdmissionLimits: Sendable {
    package let rates: RequestRates
    /// Requests of each caller, from their admission to their answer.
    package let callers: SharedLimit
    package let shedding: LoadShedding
    /// Bytes of large bodies.
    package let bodies: SharedLimit

    package init(rates: RequestRates, callers: SharedLimit, shedding: LoadShedding, bodies: SharedLimit) {
        self.rates = rates
        self.callers = callers
        self.shedding = shedding
        self.bodies = bodies
    }
}
