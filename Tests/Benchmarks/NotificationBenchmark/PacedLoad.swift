import BenchmarkSupport
import Foundation
import SystemIO

/// Sends at fixed moments, however long the answers take: a slow service is not spared the next request.
struct PacedLoad {
    static let perSecond = 100.0
    private static let connections = 32

    let address: SocketAddress

    /// When each request was due, UNIX seconds, by its number.
    typealias Calls = [(number: Int, due: Double)]

    /// - Parameters:
    ///   - first: The first request's number.
    ///   - goesOn: Asked four times a second.
    func run(from first: Int, _ request: (Int) -> HTTPRequest, while goesOn: () throws -> Bool) throws -> Calls {
        var (idle, busy): ([HTTPConnection], [HTTPConnection]) = ([], [])
        for _ in 0..<Self.connections { idle.append(try HTTPConnection(to: address)) }
        var calls: Calls = []
        let begin = Date().timeIntervalSince1970
        var nextQuestion = begin
        while true {
            let now = Date().timeIntervalSince1970
            if now >= nextQuestion {
                nextQuestion = now + 0.25
                if try !goesOn() { break }
            }
            let due = begin + Double(calls.count) / Self.perSecond
            if now < due {
                busy = try Self.collect(&idle, from: busy)
                Thread.sleep(forTimeInterval: max(0, min(due - Date().timeIntervalSince1970, 0.002)))
                continue
            }
            if idle.isEmpty {
                // All wait for answers: the oldest one's turn.
                let oldest = busy.removeFirst()
                try Self.check(oldest.receive())
                idle.append(oldest)
            }
            let connection = idle.removeLast()
            try connection.send(request(first + calls.count))
            calls.append((first + calls.count, due))
            busy.append(connection)
        }
        for connection in busy { try Self.check(connection.receive()) }
        return calls
    }

    /// Takes the answers that have come.
    private static func collect(_ idle: inout [HTTPConnection], from busy: [HTTPConnection]) throws -> [HTTPConnection] {
        var waiting: [HTTPConnection] = []
        for connection in busy {
            if let answer = try connection.received() {
                try check(answer)
                idle.append(connection)
            } else {
                waiting.append(connection)
            }
        }
        return waiting
    }

    private static func check(_ answer: ServiceClient.Answer) throws {
        guard answer.status == 202 else { throw ServiceClient.refused("a notification", answer) }
    }
}
