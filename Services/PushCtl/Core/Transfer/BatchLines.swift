import NIOCore
import StrictJSON

/// One line of a file of notifications.
enum BatchLine: Equatable, Sendable {
    case item(number: Int, json: [UInt8])
    /// It is not JSON, so it cannot be sent with others.
    case unreadable(number: Int, reason: String)

    var number: Int {
        switch self {
        case .item(let number, _), .unreadable(let number, _): number
        }
    }

    /// The bytes that the line adds to a request.
    var bytes: Int {
        switch self {
        case .item(_, let json): json.count + 1
        case .unreadable: 0
        }
    }
}

/// The lines of a file of notifications, in groups that each go in one request.
struct BatchLines {
    static let maximumItems = 1000
    static let maximumBytes = 4 << 20
    /// An item stands around its notification.
    private static let maximumDepth = JSONScanner.defaultMaximumDepth + 1

    private var blocks: LineBlocks
    private let firstLine: Int
    private var rest: ArraySlice<UInt8> = []
    private var nextNumber = 1
    /// It had no room in the group before.
    private var held: BatchLine?

    /// - Parameters:
    ///   - firstLine: Lines before this one are passed over.
    ///   - read: The file's next bytes; none at its end.
    init(firstLine: Int, read: @escaping @Sendable () throws -> [UInt8]) {
        self.firstLine = firstLine
        blocks = LineBlocks(read: read)
    }

    /// - Returns: nil at the end.
    /// - Throws: ``CommandFailure`` if the file cannot be read.
    mutating func nextGroup() throws -> [BatchLine]? {
        var group: [BatchLine] = []
        var bytes = Self.body(of: []).count
        while group.count < Self.maximumItems, let line = try nextLine() {
            guard group.isEmpty || bytes + line.bytes <= Self.maximumBytes else {
                held = line
                break
            }
            group.append(line)
            bytes += line.bytes
        }
        return group.isEmpty ? nil : group
    }

    /// The request's body.
    static func body(of items: [[UInt8]]) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { body in
            body.array("notifications") { array in
                for item in items { array.raw(item) }
            }
        }
        return writer.bytes
    }

    private mutating func nextLine() throws -> BatchLine? {
        if let line = held {
            held = nil
            return line
        }
        while true {
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                let (number, line) = (nextNumber, Array(rest[..<end]))
                rest = rest[(end + 1)...]
                nextNumber += 1
                if number >= firstLine, !Self.isBlank(line) { return Self.line(number, line) }
            }
            guard let block = try blocks.next() else { return nil }
            nextNumber = block.firstLine
            rest = Array(block.bytes.readableBytesView)[...]
        }
    }

    private static func line(_ number: Int, _ json: [UInt8]) -> BatchLine {
        do {
            _ = try JSONValue.parse(json, maximumDepth: maximumDepth, maximumBytes: maximumBytes)
            return .item(number: number, json: json)
        } catch {
            return .unreadable(number: number, reason: "column \(error.column): \(error.message)")
        }
    }

    private static func isBlank(_ line: [UInt8]) -> Bool {
        line.allSatisfy { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: "\r") }
    }
}
