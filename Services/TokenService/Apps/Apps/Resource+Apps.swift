import HTTPTypes
import TokenServiceKit

extension APIRoute {
    package static let createApp = APIRoute(.post, "/v1/admin/apps", .admin, audit: .appCreated)
    package static let listApps = APIRoute(.get, "/v1/admin/apps", .admin)
    package static let readApp = APIRoute(.get, "/v1/admin/apps/{slug}", .admin)
    package static let changeApp = APIRoute(.patch, "/v1/admin/apps/{slug}", .admin, audit: .appChanged)
}

extension Resource {
    package static let apps = Resource(
        "Apps", "An app is a tenant: its devices, users, notifications and keys are its own.",
        [create, list, read, change])

    private static let create = Operation(
        .createApp, "createApp", "Make an app", "The same again answers 200; another one of the same slug 409.",
        request: .json(AppProperties.new),
        answers: [Answer(201, "Made.", .json(App.made)), Answer(200, "It was there, exactly like this.", .json(App.made))],
        problems: [.appDiffers])

    private static let list = Operation(
        .listApps, "listApps", "All apps", answers: [Answer(200, "By slug.", .json(App.list))])

    private static let read = Operation(
        .readApp, "readApp", "One app", answers: [Answer(200, "The app.", .json(App.response))], problems: [.notFound])

    private static let change = Operation(
        .changeApp, "changeApp", "Change an app", "A merge patch (RFC 7396): what the body does not name stays as it is.",
        request: .mergePatch(AppProperties.change), answers: [Answer(200, "The app as it is now.", .json(App.made))],
        problems: [.notFound, .environmentInUse])

}
