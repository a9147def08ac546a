@testable import APNs

/// A parser of the dispatcher for foreign bytes. No input may make it trap, hang or grow. The tests replay the corpus of each target;
/// `deploy/fuzz` looks for more inputs.
enum FuzzTarget: String, CaseIterable {
    /// A message from the jobs' queues.
    case job
    /// The JSON of an error answer or a GOAWAY.
    case errorBody = "error-body"
    /// `.p8` keys, client certificates and PKCS #12 containers; the first byte says how the rest is read.
    case signingKey = "signing-key"
    /// The bytes of APNs after TLS, on a connection with requests in flight.
    case answers
    /// The credentials file.
    case credentials

    func run(_ bytes: [UInt8]) {
        switch self {
        case .job: FuzzJob.run(bytes)
        case .errorBody: FuzzErrorBody.run(bytes)
        case .signingKey: FuzzSigningKey.run(bytes)
        case .answers: FuzzAnswers.run(bytes)
        case .credentials: FuzzCredentials.run(bytes)
        }
    }
}
