@testable import APNsSimulator

/// A parser of the simulator that strangers reach. No input may make it trap, hang or grow. The tests replay the corpus of each target;
/// `deploy/fuzz` looks for more inputs.
enum FuzzTarget: String, CaseIterable {
    /// HTTP/2 as it comes out of TLS, up to the answer.
    case connection
    /// One request: lines of `name: value`, an empty line, the body.
    case request
    /// The text after `bearer `; signed properly where the first byte is even.
    case providerToken = "provider-token"
    /// The JSON, and what a device does with it.
    case payload
    /// `METHOD PATH`, a line feed, the body.
    case control
    /// A request about channels, or a broadcast: as `request`.
    case channels
    /// The topics in a client certificate, which are read even if no authority has signed it.
    case certificate

    func run(_ bytes: [UInt8]) {
        switch self {
        case .connection: FuzzConnection.run(bytes)
        case .request: FuzzRequest.run(bytes)
        case .providerToken: FuzzProviderToken.run(bytes)
        case .payload: FuzzPayload.run(bytes)
        case .control: FuzzControl.run(bytes)
        case .channels: FuzzChannels.run(bytes)
        case .certificate: _ = ProviderCertificate.strings(bytes)
        }
    }
}
