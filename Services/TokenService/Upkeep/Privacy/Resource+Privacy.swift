import HTTPTypes
package import TokenServiceApps

extension APIRoute {
    package static let eraseUser = APIRoute(.post, "/v1/apps/{app}/users/{user}/erase", .admin, audit: .userErased)
    package static let exportUser = APIRoute(.post, "/v1/apps/{app}/users/{user}/export", .admin, audit: .userExported)
}

extension Resource {
    package static let privacy = Resource(
        "Privacy", "What a person may ask for: to get everything that is stored, and to be forgotten.", [erase, export])

    private static let erase = Operation(
        .eraseUser, "eraseUser", "Erase a user",
        """
        Fences first, so that nothing that is queued reaches a device; then quiet hours, installations, history, receipts and \
        idempotency records, and the user's places in lists. Cannot be undone. A call that was cut short is finished by repeating it.
        """,
        request: .json(Erasure.request), answers: [Answer(200, "Erased; what this call removed.", .json(Erasure.response))])

    private static let export = Operation(
        .exportUser, "exportUser", "Everything that is stored about a user",
        "Streamed: an answer that is no whole JSON was cut short. Tokens are shown in full, they are the person's own.",
        request: .json(UserExport.request, isRequired: false), answers: [Answer(200, "Everything.", .json(UserExport.schema))])

}
