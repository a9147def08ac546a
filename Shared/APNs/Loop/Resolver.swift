import Dispatch
import SystemIO

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
