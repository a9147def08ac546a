import HTTPTypes
import Hummingbird
import StrictJSON

enum ControlAnswer {
    static func json(_ status: HTTPResponse.Status = .ok, _ write: (inout JSONWriter) -> Void) -> Response {
        response(status, contentType: "application/json", write)
    }

    static func response(_ status: HTTPResponse.Status, contentType: String, _ write: (inout JSONWriter) -> Void) -> Response {
        var writer = JSONWriter()
        write(&writer)
        return Response(
            status: status, headers: [.contentType: contentType, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: writer.bytes)))
    }

    static let noContent = Response(status: .noContent)
}
