import HTTPTypes
import Hummingbird
import StrictJSON

enum JSONAnswer {
    static func response(_ status: HTTPResponse.Status, headers: HTTPFields = [:], _ write: (inout JSONWriter) -> Void) -> Response {
        var writer = JSONWriter()
        write(&writer)
        var headers = headers
        headers[.contentType] = "application/json"
        headers[.cacheControl] = "no-store"
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: writer.bytes)))
    }

    static let noContent = Response(status: .noContent)
}
