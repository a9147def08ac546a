import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import StrictJSON

/// A refusal, in one line for a person.
struct Refusal {
    let words: String
    /// Whether the same request would be refused again.
    let isLasting: Bool
    /// Whether the service did nothing yet and asks to come back: 429 and 503.
    let isForNow: Bool

    /// Reads the problem document (RFC 9457) of an answer; one that cannot be read is still a refusal.
    /// - Parameter call: Method and path.
    /// - Returns: nil for a status of 2xx, whose body is not touched.
    init?(_ response: HTTPClientResponse, to call: String) async {
        let status = response.status.code
        guard !(200..<300).contains(status) else { return nil }
        isLasting = status != 429 && status < 500
        isForNow = status == 429 || status == 503
        let problem: JSONValue?
        do {
            let body = try await response.body.collect(upTo: 1 << 20)
            problem = try JSONValue.parse(Array(body.readableBytesView), maximumBytes: 1 << 20)
        } catch {
            problem = nil
        }
        words = "\(call) was refused: \(Self.explanation(status, problem))"
    }

    /// A problem document in one line.
    static func explanation(_ status: UInt, _ problem: JSONValue?) -> String {
        guard let problem else { return "status \(status)" }
        let title = problem["detail"]?.stringValue ?? problem["title"]?.stringValue ?? "no explanation"
        let fields = (problem["errors"]?.arrayValue ?? []).map { error in
            "\(error["pointer"]?.stringValue ?? "?"): \(error["detail"]?.stringValue ?? "?")"
        }
        return (["\(status) \(problem["code"]?.stringValue ?? "")", title] + fields).joined(separator: "; ")
    }
}
