import HTTPTypes
import Hummingbird

/// The page of the control port: every device with its lock screen, and the arrivals as they come. It loads nothing from other servers, and
/// its policy makes the browser refuse to.
enum ControlPage {
    struct File {
        let path: String
        let contentType: String
        let bytes: [UInt8]

        var response: Response {
            Response(
                status: .ok,
                headers: [
                    .contentType: contentType, .cacheControl: "no-store", .contentSecurityPolicy: ControlPage.policy,
                    .xContentTypeOptions: "nosniff",
                ], body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
        }
    }

    /// Scripts and styles are files of this server: payload text that became an element would not run.
    private static let policy = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
        base-uri 'none'; form-action 'none'; frame-ancestors 'none'
        """

    static let files = [
        File(path: "/", contentType: "text/html; charset=utf-8", bytes: PackageResources.index_html),
        File(path: "/page/page.css", contentType: "text/css; charset=utf-8", bytes: PackageResources.page_css),
        File(path: "/page/icon.svg", contentType: "image/svg+xml", bytes: PackageResources.icon_svg),
        script("main.js", PackageResources.main_js), script("devices.js", PackageResources.devices_js),
        script("activities.js", PackageResources.activities_js), script("channels.js", PackageResources.channels_js),
        script("arrivals.js", PackageResources.arrivals_js), script("dom.js", PackageResources.dom_js),
    ]

    private static func script(_ name: String, _ bytes: [UInt8]) -> File {
        File(path: "/page/" + name, contentType: "text/javascript; charset=utf-8", bytes: bytes)
    }
}
