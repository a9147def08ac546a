"""A trace collector: otlp_receiver.py PORT [REFUSALS]

Reads every request with OpenTelemetry's own definitions (opentelemetry-proto) and refuses what they do not know. The first REFUSALS
requests get 503. GET /spans answers with all spans.
"""

import base64
import http.server
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

spans = []
refusals = int(sys.argv[2]) if len(sys.argv) > 2 else 0


def with_base64_ids(value):
    """OTLP writes ids in hex; Protocol Buffers' JSON form expects base64."""
    if isinstance(value, list):
        return [with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = {"traceId": 16, "spanId": 8, "parentSpanId": 8}
    answer = {}
    for name, item in value.items():
        if name in ids:
            raw = bytes.fromhex(item)
            if len(raw) != ids[name] or raw == bytes(len(raw)) or item != item.lower():
                raise ValueError(f"{name} is no id: {item}")
            answer[name] = base64.b64encode(raw).decode()
        else:
            answer[name] = with_base64_ids(item)
    return answer


def attributes(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def read(body):
    request = trace_service_pb2.ExportTraceServiceRequest()
    json_format.ParseDict(with_base64_ids(json.loads(body)), request)
    for group in request.resource_spans:
        service = attributes(group.resource.attributes)["service.name"]
        for scope in group.scope_spans:
            for span in scope.spans:
                if span.end_time_unix_nano < span.start_time_unix_nano or span.kind == 0:
                    raise ValueError(f"{span.name} ends before it begins, or has no kind")
                yield {
                    "service": service, "name": span.name, "kind": span.kind, "trace": span.trace_id.hex(), "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(), "start": span.start_time_unix_nano, "end": span.end_time_unix_nano,
                    "attributes": {name: str(value) for name, value in attributes(span.attributes).items()},
                    "links": [link.trace_id.hex() + link.span_id.hex() for link in span.links], "failed": span.status.code == 2,
                }


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(200, {"spans": spans})

    def do_POST(self):
        global refusals
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if refusals > 0:
            refusals -= 1
            return self.answer(503, {})
        if self.path != "/v1/traces" or self.headers["Content-Type"] != "application/json":
            return self.answer(404, {})
        try:
            spans.extend(read(body))
        except (ValueError, KeyError, json_format.ParseError) as fault:
            print(f"refused: {fault}", flush=True)
            return self.answer(400, {"message": str(fault)})
        self.answer(200, {})

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Collector).serve_forever()
