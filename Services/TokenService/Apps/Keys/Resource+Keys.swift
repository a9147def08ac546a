import HTTPTypes
import TokenServiceKit

extension APIRoute {
    package static let createKey = APIRoute(.post, "/v1/admin/keys", .admin, audit: .keyCreated)
    package static let listKeys = APIRoute(.get, "/v1/admin/keys", .admin)
    package static let readKey = APIRoute(.get, "/v1/key", .devices, .send, .read, .admin)
    package static let rotateKey = APIRoute(.post, "/v1/admin/keys/{id}/rotate", .admin, audit: .keyRotated)
    package static let revokeKey = APIRoute(.delete, "/v1/admin/keys/{id}", .admin, audit: .keyRevoked)
}

extension Resource {
    package static let keys = Resource(
        "Keys", "API keys. Only a digest of a key is stored; the key itself is shown once, when it is made.",
        [create, list, read, rotate, revoke])

    private static let create = Operation(
        .createKey, "createKey", "Make a key", "The answer is the only place where the key is shown.",
        request: .json(APIKey.new), answers: [Answer(201, "Made.", .json(APIKey.made))])

    private static let list = Operation(
        .listKeys, "listKeys", "All keys", "Without their secrets.", answers: [Answer(200, "By age, the oldest first.", .json(APIKey.list))]
    )

    private static let read = Operation(
        .readKey, "readKey", "The key of the request", "What the caller's own key may do.",
        answers: [Answer(200, "The key, without its secret.", .json(APIKey.made))])

    private static let rotate = Operation(
        .rotateKey, "rotateKey", "Replace a key", "Makes a key with the same rights; both live until the older one ends.",
        request: .json(APIKey.rotation, isRequired: false),
        answers: [Answer(201, "Made. The older key is in `previous`.", .json(APIKey.rotated))],
        problems: [.notFound, .keyNotLive, .keyAlreadyRotated])

    private static let revoke = Operation(
        .revokeKey, "revokeKey", "Revoke a key", "At once here; other instances notice within five seconds.",
        answers: [Answer(204, "It is over.")], problems: [.notFound])

}
