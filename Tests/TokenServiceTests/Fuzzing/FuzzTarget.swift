/// What the token service reads that others wrote, fed with any bytes. Whatever comes, nothing may trap, hang or grow, and what is taken
/// must be what is described. The tests replay the corpus of each; `deploy/fuzz` looks for more.
enum FuzzTarget: String, CaseIterable {
    /// HTTP/1.1 as it comes from the socket, up to the router.
    case http
    /// The body of a send request.
    case send
    /// The body of every other request; the first byte says of which.
    case body
    /// An import's lines, in pieces.
    case lines
    case tags
    /// Where webhooks lead to, and addresses that names resolve to.
    case webhook
    /// Keys, ids, times, cursors and whatever else stands in a field, a path or a query.
    case text
    /// Outcomes and control messages; the first byte says which.
    case message
    /// What a broker says, through a socket into librabbitmq and our wrapper.
    case broker
    /// PostgreSQL's binary values; the first byte says of which type.
    case database

    func run(_ bytes: [UInt8]) {
        switch self {
        case .http: FuzzHTTP.run(bytes)
        case .send: FuzzBody.send(bytes)
        case .body: FuzzBody.run(bytes)
        case .lines: FuzzLines.run(bytes)
        case .tags: FuzzText.tags(bytes)
        case .webhook: FuzzText.webhook(bytes)
        case .text: FuzzText.run(bytes)
        case .message: FuzzMessage.run(bytes)
        case .broker: FuzzBroker.run(bytes)
        case .database: FuzzDatabase.run(bytes)
        }
    }
}
