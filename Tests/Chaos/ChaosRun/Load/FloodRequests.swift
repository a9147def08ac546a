/// The bytes of a flood's requests. They are made before it begins; a request is a copy with its marker written into it.
struct FloodRequests: Sendable {
    private struct Template: Sendable {
        let bytes: [UInt8]
        /// The places of the marker's digits: in the idempotency key, and in the payload.
        let places: [Int]
    }

    /// So that each marker has the same number of digits, and is no ordinary request's.
    private static let firstMarker: Int64 = 1_000_000_000
    private static let digits = 10

    let apps: [ChaosApp]
    let users: [String]
    private let keyPrefix: String
    /// Of each app for each user.
    private let templates: [Template]

    init(apps: [ChaosApp], users: [String], seed: UInt64) {
        (self.apps, self.users) = (apps, users)
        keyPrefix = "flood-\(seed)-"
        let marker = String(Self.firstMarker)
        var templates: [Template] = []
        for app in apps {
            let head =
                "POST /v1/apps/\(app.slug)/notifications HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer \(app.key)\r\n"
                + "content-type: application/json\r\nidempotency-key: \(keyPrefix)"
            for user in users {
                let body = #"{"to":{"user":"\#(user)"},"receipts":"all","payload":{"aps":{"alert":"Chaos"},"marker":"#
                let length = body.utf8.count + marker.utf8.count + 2
                let start = "\(head)\(marker)\r\ncontent-length: \(length)\r\n\r\n\(body)"
                templates.append(Template(bytes: Array("\(start)\(marker)}}".utf8), places: [head.utf8.count, start.utf8.count]))
            }
        }
        self.templates = templates
    }

    /// The marker of a request, of a number that no other request of the run has.
    static func marker(_ number: Int64) -> Int64 { firstMarker + number }

    /// Appends one request.
    func append(_ question: FloodBook.Question, to bytes: inout [UInt8]) {
        let template = templates[question.app * users.count + question.user]
        let start = bytes.count
        bytes += template.bytes
        var rest = question.marker
        for digit in (0..<Self.digits).reversed() {
            for place in template.places { bytes[start + place + digit] = UInt8(ascii: "0") + UInt8(rest % 10) }
            rest /= 10
        }
    }

    func key(_ marker: Int64) -> String { "\(keyPrefix)\(marker)" }
}
