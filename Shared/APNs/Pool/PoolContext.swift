import PushModel

/// What every thread of a pool needs, and none changes.
struct PoolContext: Sendable {
    let configuration: APNsPoolConfiguration
    /// Nil where a certificate says who we are.
    let signer: ProviderTokenSigner?
    let dialer: Dialer
    let authority: String
    let parking: Parking
    let ledger: PoolLedger
    let gate: @Sendable (APNsBatch, APNsRequest) -> StopReason?
    /// With what became finished together, never with nothing.
    let onFinished: @Sendable ([APNsFinishedBatch]) -> Void
    let report: @Sendable (ConnectionReport) -> Void

    var clock: APNsClock { configuration.clock }
}

/// What a connection tells its pool.
struct ConnectionReport: Sendable {
    enum News: Sendable {
        case opened
        case proven
        case retiring(RetireCause)
        case failed(DialError)
        case closed(CloseCause)
    }

    let id: ConnectionID
    let address: String?
    let news: News
}

/// What a pool tells a connection.
enum ConnectionCommand: Sendable {
    /// Finish what is in flight, take nothing more, close.
    case drain
    /// Close now, whatever is in flight.
    case cutOff
}
