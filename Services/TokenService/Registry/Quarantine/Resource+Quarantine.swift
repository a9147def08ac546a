import HTTPTypes
package import TokenServiceApps
import TokenServiceKit

extension APIRoute {
    package static let listQuarantine = APIRoute(.get, "/v1/apps/{app}/quarantine", .read, .admin)
    package static let restoreQuarantine = APIRoute(.post, "/v1/apps/{app}/quarantine/restore", .admin, audit: .quarantineRestored)
}

extension Resource {
    package static let quarantine = Resource(
        "Quarantine", "Tokens that were retired as rejected while too many were: kept aside, because the fault may be ours.",
        [list, restore])

    private static let list = Operation(
        .listQuarantine, "listQuarantine", "What is quarantined, page by page", parameters: Parameter.page,
        answers: [Answer(200, "One page, the oldest tokens first.", .json(QuarantinedToken.page))], problems: ProblemCode.cursor)

    private static let restore = Operation(
        .restoreQuarantine, "restoreQuarantine", "Bring quarantined tokens back to life", "Idempotent.",
        request: .json(QuarantineRestore.request, isRequired: false), answers: [Answer(200, "Restored.", .json(QuarantineRestore.response))]
    )
}
