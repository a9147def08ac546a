import Hummingbird
import StrictJSON

/// Clients' certificates by their fingerprints, which may be added and revoked while clients are connected.
struct CertificatesController {
    let keyRing: KeyRing

    func list() -> Response {
        let certificates = keyRing.certificates()
        return ControlAnswer.json { writer in
            writer.object { object in
                object.array("certificates") { array in
                    for (fingerprint, state) in certificates { array.object { Self.write(fingerprint, state, to: &$0) } }
                }
            }
        }
    }

    func put(_ request: ControlRequest) async throws -> Response {
        let fingerprint = try Self.fingerprint(request)
        let state = try await request.body { reader in reader.choice("state", of: CertificateState.self) }
        guard let isKnown = keyRing.set(state, fingerprint) else {
            throw ControlProblem(.conflict, "too_many_certificates", "Too many certificates", "DELETE some of GET /v1/certificates")
        }
        return ControlAnswer.json(isKnown ? .ok : .created) { writer in writer.object { Self.write(fingerprint, state, to: &$0) } }
    }

    /// Its authority alone decides again.
    func remove(_ request: ControlRequest) throws -> Response {
        guard keyRing.set(nil, try Self.fingerprint(request)) == true else {
            throw ControlProblem(.notFound, "unknown_certificate", "No such certificate", "GET /v1/certificates lists those there are")
        }
        return ControlAnswer.noContent
    }

    private static func fingerprint(_ request: ControlRequest) throws -> CertificateFingerprint {
        let text = try request.context.parameters.require("sha256")
        guard let fingerprint = CertificateFingerprint(text) else {
            throw ControlProblem(
                .badRequest, "invalid_fingerprint", "The request is not valid",
                "expected 64 hex digits, as openssl x509 -noout -fingerprint -sha256 prints them")
        }
        return fingerprint
    }

    private static func write(_ fingerprint: CertificateFingerprint, _ state: CertificateState, to object: inout JSONWriter) {
        object.field("sha256", fingerprint.hex)
        object.field("state", state.rawValue)
    }
}
