import AsyncHTTPClient
import NIOCore
import StrictJSON

extension APIClient {
    /// Posts a JSON object and hands on the answer piece by piece, of any size.
    /// - Throws: ``CommandFailure`` with the server's own explanation when it refuses, and when the answer breaks off.
    func download(_ path: String, _ body: (inout JSONWriter) -> Void, to sink: (ByteBuffer) throws -> Void) async throws {
        let response = try await response(to: path, body)
        do {
            for try await piece in response.body { try sink(piece) }
        } catch let failure as CommandFailure {
            throw failure
        } catch {
            throw CommandFailure("POST \(path): the answer broke off (\(error)); what was written is not whole")
        }
    }
}
