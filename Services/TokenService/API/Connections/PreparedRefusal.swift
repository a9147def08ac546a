import FoundationEssentials
import HTTPTypes
import Hummingbird
import NIOCore
import Synchronization
import TokenServiceApps
import TokenServiceKit

/// A refusal as bytes of HTTP/1.1. The two that an overloaded process writes most often are made once.
struct PreparedRefusal: Sendable {
    private static let frequent = [PreparedRefusal(.overloaded), PreparedRefusal(.concurrencyLimited(.requests))]

    /// Names the refusal: no two have the same.
    private let detail: String
    /// The answer's head without the fields that differ from one answer to the next.
    private let head: [UInt8]
    private let content: [UInt8]

    private init(_ refusal: APIError) {
        detail = refusal.detail
        let response = refusal.response()
        let fields = response.headers.map { "\($0.name.rawName): \($0.value)\r\n" }.joined()
        head = Array("HTTP/1.1 \(response.status)\r\n\(fields)".utf8)
        content = refusal.body()
    }

    /// The answer to a request whose caller has this quota.
    static func bytes(_ refusal: APIError, _ quota: TokenBucket.Quota?, _ allocator: ByteBufferAllocator) -> ByteBuffer {
        let prepared = frequent.first { $0.detail == refusal.detail } ?? PreparedRefusal(refusal)
        var bytes = allocator.buffer(capacity: prepared.head.count + prepared.content.count + 160)
        bytes.writeBytes(prepared.head)
        if let quota {
            for (name, value) in quota.fields { bytes.writeString("\(name.rawName): \(value)\r\n") }
        }
        bytes.writeString("Date: \(HTTPDate.now())\r\n\r\n")
        bytes.writeBytes(prepared.content)
        return bytes
    }
}

/// The value of the field `Date` (RFC 9110, section 5.6.7). It is written anew once a second.
enum HTTPDate {
    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    private static let written = Mutex<(second: Int64, text: String)>((.min, ""))

    static func now() -> String {
        let second = UnixTime.milliseconds() / 1000
        return written.withLock { written in
            if written.second != second { written = (second, text(second)) }
            return written.text
        }
    }

    /// - Parameter second: A moment in seconds since 1970.
    static func text(_ second: Int64) -> String {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        let date = Date(timeIntervalSince1970: Double(second))
        func part(_ component: Calendar.Component) -> Int { calendar.component(component, from: date) }
        func two(_ component: Calendar.Component) -> String {
            let value = part(component)
            return value < 10 ? "0\(value)" : "\(value)"
        }
        return "\(days[part(.weekday) - 1]), \(two(.day)) \(months[part(.month) - 1]) \(part(.year)) "
            + "\(two(.hour)):\(two(.minute)):\(two(.second)) GMT"
    }
}
