import BenchmarkSupport
import Foundation
import Synchronization
import SystemIO

/// Sends at fixed moments, however long the answers take, so that a slow service gets the next request too.
struct PacedLoad {
    static let perSecond = 100.0
    private static let connections = 32

    let address: SocketAddress

    /// When each request was due and when it was sent, UNIX seconds, by its number.
    typealias Calls = [(number: Int, due: Double, sent: Double)]

    /// - Parameters:
    ///   - first: The first request's number.
    ///   - goesOn: Asked four times a second, on another thread: what takes long to answer on a busy machine must delay no request.
    func run(
        from first: Int, _ request: (Int) -> HTTPRequest, while goesOn: @escaping @Sendable () throws -> Bool
    ) throws -> Calls {
        let question = Question(goesOn)
        defer { question.end() }
        // Set this after the start of the question's thread, which would inherit it.
        let precedence = Precedence()
        defer { precedence.end() }
        var (idle, busy): ([HTTPConnection], [HTTPConnection]) = ([], [])
        for _ in 0..<Self.connections { idle.append(try HTTPConnection(to: address)) }
        var calls: Calls = []
        let begin = Date().timeIntervalSince1970
        while try question.goesOn() {
            let now = Date().timeIntervalSince1970
            let due = begin + Double(calls.count) / Self.perSecond
            if now < due {
                busy = try Self.collect(&idle, from: busy)
                Thread.sleep(forTimeInterval: max(0, min(due - Date().timeIntervalSince1970, 0.002)))
                continue
            }
            if idle.isEmpty {
                // All connections wait for answers, so take the oldest one.
                let oldest = busy.removeFirst()
                try Self.check(oldest.receive())
                idle.append(oldest)
            }
            // The connections take turns, so that none is idle until the service closes it.
            let connection = idle.removeFirst()
            try connection.send(request(first + calls.count))
            calls.append((first + calls.count, due, Date().timeIntervalSince1970))
            busy.append(connection)
        }
        for connection in busy { try Self.check(connection.receive()) }
        return calls
    }

    /// Reads the answers that have come.
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

    private static func check(_ answer: HTTPAnswer) throws {
        guard answer.status == 202 else { throw answer.refusal(of: "a notification") }
    }
}

/// Gives the calling thread priority over everything else on this machine, because real callers have their own machines and never wait for
/// a processor of the platform. Needs root or `CAP_SYS_NICE`; without it calls leave late, and the report says so.
private struct Precedence {
    private let thread = pthread_self()

    init() {
        var priority = sched_param(sched_priority: 1)
        _ = unsafe pthread_setschedparam(thread, SCHED_FIFO, &priority)
    }

    func end() {
        var priority = sched_param(sched_priority: 0)
        _ = unsafe pthread_setschedparam(thread, SCHED_OTHER, &priority)
    }
}

/// Asks something again and again until the answer is no.
private final class Question: Sendable {
    private let answer = Mutex<Result<Bool, any Error>>(.success(true))

    init(_ ask: @escaping @Sendable () throws -> Bool) {
        Thread.detachNewThread { [self] in
            while case .success(true) = answer.withLock({ $0 }) {
                let next = Result { try ask() }
                answer.withLock { if case .success(true) = $0 { $0 = next } }
                Thread.sleep(forTimeInterval: 0.25)
            }
        }
    }

    func goesOn() throws -> Bool { try answer.withLock { $0 }.get() }
    func end() { answer.withLock { $0 = .success(false) } }
}
