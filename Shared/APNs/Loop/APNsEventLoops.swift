import Dispatch
import OpenSSL
import Synchronization
package import SystemIO

/// A fixed number of threads that serve every pool of a process, however many pools there are, and one more thread that resolves names.
///
/// A pool and its connections belong to one of the threads. The threads end when the last reference to this object goes; each pool has one.
package final class APNsEventLoops: Sendable {
    private let loops: [EventLoopHandle]
    private let next = Atomic(0)
    let resolver: Resolver
    /// The contexts for credentials without a certificate: TLS knows no difference between them, so one context for each trust serves them
    /// all.
    private let contexts = Mutex<[TLSTrust: TLSContext]>([:])
    private let signers = Mutex<[SigningKey: ProviderTokenSigner]>([:])

    private struct SigningKey: Hashable {
        let teamID: String
        let keyID: String
        /// SHA-256 of the key itself: the file behind an id may be another one.
        let digest: [UInt8]
    }

    /// - Parameter threads: at least one; as many as processors is a good choice.
    /// - Throws: if the system starts no thread or gives no descriptor.
    package init(threads: Int) throws(SystemError) {
        resolver = try Resolver()
        var loops: [EventLoopHandle] = []
        for index in 0..<max(1, threads) { loops.append(try EventLoopHandle(name: "apns-\(index)")) }
        self.loops = loops
    }

    deinit {
        for loop in loops { loop.post(.stop) }
        resolver.stop()
    }

    /// The loop for one more pool, in turn.
    func pick() -> EventLoopHandle {
        loops[next.wrappingAdd(1, ordering: .relaxed).oldValue % loops.count]
    }

    /// - Throws: if the trusted authorities cannot be read.
    func context(trusting trust: TLSTrust) throws(TLSError) -> TLSContext {
        try contexts.withLock { contexts throws(TLSError) in
            if let known = contexts[trust] { return known }
            let new = try TLSContext.client(trust: trust, alpn: ["h2"])
            contexts[trust] = new
            return new
        }
    }

    /// One for each key, however many credentials and pools sign with it. Nil with a certificate.
    func signer(of credential: APNsCredential) throws(TLSError) -> ProviderTokenSigner? {
        guard case .token(let teamID, let keyID, let key) = credential.kind else { return nil }
        let name = SigningKey(teamID: teamID, keyID: keyID, digest: Digest.sha256(Array(try key.pem().utf8)))
        return signers.withLock { signers in
            let signer = signers[name] ?? ProviderTokenSigner(credential)
            signers[name] = signer
            return signer
        }
    }
}

/// The other threads' end of an event loop.
final class EventLoopHandle: Sendable {
    let mailbox: Mailbox<EventLoopMessage>
    let wakeUp: WakeUp

    /// Starts the thread.
    init(name: String) throws(SystemError) {
        let wakeUp = try WakeUp()
        let mailbox = Mailbox<EventLoopMessage>(wakeUp: wakeUp)
        self.wakeUp = wakeUp
        self.mailbox = mailbox
        try SystemThread.start(name: name) { EventLoop.run(mailbox, wakeUp) }
    }

    /// - Returns: false if the loop has ended; the message was not taken then.
    @discardableResult
    func post(_ message: EventLoopMessage) -> Bool { mailbox.post(message) }
}

/// Messages to an event loop.
enum EventLoopMessage: Sendable {
    case submit([APNsBatch], PoolContext)
    /// `cutOff`: when requests still in flight are given up. The continuation is resumed when the pool has no request and no connection
    /// left.
    case shutDown(PoolContext, cutOff: ContinuousClock.Instant, CheckedContinuation<Void, Never>)
    case resolved(PoolID, ConnectionID, Result<[SocketAddress], ResolveError>)
    case stop
}

/// Resolves names on a thread of its own, because the system's resolver blocks. Pools that ask for the same host while it works share one
/// look-up.
final class Resolver: Sendable {
    struct Question: Sendable {
        let host: String
        let port: Int
        let resolve: @Sendable (String, Int) throws(ResolveError) -> [SocketAddress]
        let answer: @Sendable (Result<[SocketAddress], ResolveError>) -> Void
    }

    private enum Message: Sendable {
        case question(Question)
        case stop
    }

    private struct Host: Hashable {
        let name: String
        let port: Int
    }

    private let mailbox: Mailbox<Message>

    init() throws(SystemError) {
        let arrivals = DispatchSemaphore(value: 0)
        let mailbox = Mailbox<Message>(onPost: { arrivals.signal() })
        self.mailbox = mailbox
        try SystemThread.start(name: "apns-resolver") {
            while true {
                arrivals.wait()
                var questions: [Question] = []
                for message in mailbox.takeAll() {
                    guard case .question(let question) = message else { return }
                    questions.append(question)
                }
                for (host, askers) in Dictionary(grouping: questions, by: { Host(name: $0.host, port: $0.port) }) {
                    guard let first = askers.first else { continue }
                    let result = Result { () throws(ResolveError) in try first.resolve(host.name, host.port) }
                    for question in askers { question.answer(result) }
                }
            }
        }
    }

    func ask(_ question: Question) { mailbox.post(.question(question)) }

    func stop() { mailbox.post(.stop) }
}
