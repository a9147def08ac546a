import Foundation
import Hummingbird
import Observability
import TokenServiceKit

/// `/console`: the page for people, and `/`, which leads to it and to the description. The files travel with the program
/// (`Console/Page`). They hold no data: the page asks the API, with the key that a person gives it.
package struct ConsoleController: Sendable {
    /// Scripts and styles are files of this service: data that became an element would not run.
    private static let policy = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
        frame-ancestors 'none'
        """
    private static let types = [
        "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    ]
    private static let homePage = StaticContent(
        text: """
            <!doctype html>
            <html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark"><title>token-service</title>
            <h1>token-service</h1>
            <ul><li><a href="/console">Console</a>: apps, notifications and devices, for people with a key</li>
            <li><a href="/docs">API</a>: every request, with a curl</li></ul>
            <p>Version \(BuildVersion.current.number)</p></html>
            """, type: "text/html; charset=utf-8",
        policy: "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")

    private let page: StaticContent
    /// The console's files, by name.
    private let files: [String: StaticContent]

    /// - Throws: ``MissingResources``.
    package init() throws {
        guard let folder = Bundle.module.resourceURL?.appending(path: "Page"),
            let names = try? FileManager.default.contentsOfDirectory(atPath: folder.path)
        else { throw MissingResources(bundle: "push_TokenServiceAPI") }
        var files: [String: StaticContent] = [:]
        for name in names {
            guard let type = name.split(separator: ".").last.flatMap({ Self.types[String($0)] }) else { continue }
            files[name] = StaticContent(Array(try Data(contentsOf: folder.appending(path: name))), type: type, policy: Self.policy)
        }
        guard let page = files["index.html"] else { throw MissingResources(bundle: "push_TokenServiceAPI") }
        self.page = page
        self.files = files
    }

    func bind(to router: APIRouter) {
        router.open(.home) { request, _ in Self.homePage.response(to: request) }
        router.open(.console) { [page] request, _ in page.response(to: request) }
        router.open(.consoleFile) { [files] request, parameters in
            guard let file = parameters.get("file").flatMap({ files[$0] }) else { throw APIError.notFound }
            return file.response(to: request)
        }
    }
}
