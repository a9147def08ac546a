internal import Dispatch
internal import Glibc
internal import Synchronization

/// Name resolution with a bound. libpq's own blocks inside `PQconnectStartParams` for as long as the resolver takes.
enum NameResolution {
    /// Numeric addresses in the resolver's order. A lookup that misses the deadline ends by itself on a thread of its own.
    static func addresses(of host: String, deadline: Deadline) throws(PostgresError) -> [String] {
        let answer = Answer()
        Thread.detach { answer.fill(lookUp(host)) }
        guard let found = answer.wait(until: deadline) else {
            throw PostgresError(.connectionFailed, operation: "connect", message: "the name of host \(host) was not resolved in time")
        }
        switch found {
        case .success(let addresses): return addresses
        case .failure(let failure):
            throw PostgresError(
                .connectionFailed, operation: "connect", message: "could not translate host name \(host) to address: \(failure.words)")
        }
    }

    private struct Failure: Error { let words: String }

    private enum Thread {
        static func detach(_ body: @escaping @Sendable () -> Void) {
            DispatchQueue(label: "postgres.names").async(execute: body)
        }
    }

    private final class Answer: Sendable {
        private let result = Mutex<Result<[String], Failure>?>(nil)
        private let ready = DispatchSemaphore(value: 0)

        func fill(_ answer: Result<[String], Failure>) {
            result.withLock { $0 = answer }
            ready.signal()
        }

        func wait(until deadline: Deadline) -> Result<[String], Failure>? {
            _ = ready.wait(timeout: .now() + .milliseconds(Int(deadline.pollMilliseconds)))
            return result.withLock { $0 }
        }
    }

    private static func lookUp(_ host: String) -> Result<[String], Failure> {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var first: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, nil, &hints, &first)
        guard code == 0 else { return .failure(Failure(words: String(cString: gai_strerror(code)))) }
        defer { freeaddrinfo(first) }
        var addresses: [String] = []
        var next = first
        while let entry = next {
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            if getnameinfo(entry.pointee.ai_addr, entry.pointee.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0 {
                addresses.append(String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self))
            }
            next = entry.pointee.ai_next
        }
        return addresses.isEmpty ? .failure(Failure(words: "no address")) : .success(addresses)
    }
}
