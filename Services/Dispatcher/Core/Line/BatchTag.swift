/// The tag of a batch in a pool: its job, and its app for the gate.
struct BatchTag: Equatable, Sendable {
    /// At 10,000 jobs a second, 48 bits last for nine centuries.
    let job: UInt64
    let app: ControlState.AppIndex

    init(job: UInt64, app: ControlState.AppIndex) {
        self.job = job
        self.app = app
    }

    init(_ raw: UInt64) {
        job = raw >> 16
        app = ControlState.AppIndex(truncatingIfNeeded: raw)
    }

    var raw: UInt64 { job << 16 | UInt64(app) }
}
