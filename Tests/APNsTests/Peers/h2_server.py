"""An HTTP/2 server on Python's h2, which shares no code with the client under test: it behaves as its first argument says.

h2_server.py BEHAVIOUR CERTIFICATE KEY. Prints its port, and then one JSON object for each whole request and each acknowledged SETTINGS.
Ends with its standard input.
"""

import json
import os
import socket
import ssl
import sys
import threading

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from h2.settings import SettingCodes

BEHAVIOUR, CERTIFICATE, KEY = sys.argv[1:4]
SETTINGS = {
    "one-stream": {SettingCodes.MAX_CONCURRENT_STREAMS: 1},
    "no-stream": {SettingCodes.MAX_CONCURRENT_STREAMS: 0},
    "small-window": {SettingCodes.INITIAL_WINDOW_SIZE: 0},
    "early": {SettingCodes.INITIAL_WINDOW_SIZE: 0},
}.get(BEHAVIOUR, {})
DEFAULTS = {SettingCodes.MAX_CONCURRENT_STREAMS: 100}
printing = threading.Lock()


def tell(**fields):
    with printing:
        print(json.dumps(fields), flush=True)


class Connection:
    def __init__(self, number, sock):
        self.number, self.sock, self.closing = number, sock, False
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.requests, self.bodies, self.whole = {}, {}, []

    def run(self):
        try:
            # Given in the beginning: what is changed later counts only once it is acknowledged.
            self.h2.local_settings = h2.settings.Settings(client=False, initial_values={**DEFAULTS, **SETTINGS})
            self.h2.initiate_connection()
            self.flush()
            while not self.closing:
                data = self.sock.recv(65536)
                if not data:
                    break
                for event in self.h2.receive_data(data):
                    self.handle(event)
                self.flush()
        except h2.exceptions.ProtocolError as error:
            # The client broke a rule: the test finds this line.
            tell(connection=self.number, violation=str(error))
        except OSError:
            pass
        finally:
            self.sock.close()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.sock.sendall(data)

    def handle(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.requests[event.stream_id] = dict(event.headers)
            self.bodies[event.stream_id] = b""
            if BEHAVIOUR == "small-window":
                self.h2.increment_flow_control_window(7, event.stream_id)
            if BEHAVIOUR == "early":
                # RFC 9113 section 8.1: an answer may end before the request does, whose rest is not wanted then.
                self.answer(event.stream_id, 413, "PayloadTooLarge")
                self.h2.reset_stream(event.stream_id, h2.errors.ErrorCodes.NO_ERROR)
        elif isinstance(event, h2.events.DataReceived):
            self.bodies[event.stream_id] += event.data
            self.h2.increment_flow_control_window(max(1, event.flow_controlled_length))
            if BEHAVIOUR == "small-window" and not event.stream_ended:
                self.h2.increment_flow_control_window(7, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.whole.append(event.stream_id)
            headers = self.requests[event.stream_id]
            tell(connection=self.number, path=headers[":path"], id=headers["apns-id"], body=len(self.bodies[event.stream_id]))
            self.decide(event.stream_id)
        elif isinstance(event, h2.events.SettingsAcknowledged):
            tell(connection=self.number, acknowledged=True)
            if BEHAVIOUR == "no-stream":
                self.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 5})
        elif isinstance(event, h2.events.PingAckReceived) and BEHAVIOUR == "goaway-twice":
            self.go_away()

    def answer(self, stream, status, reason=None, trailers=False):
        body = json.dumps({"reason": reason}).encode() if reason else b""
        self.h2.send_headers(stream, [(":status", str(status))], end_stream=not body and not trailers)
        if body:
            self.h2.send_data(stream, body, end_stream=not trailers)
        if trailers:
            self.h2.send_headers(stream, [("x-checked", "yes")], end_stream=True)

    def decide(self, stream):
        isFirst = self.number == 1 and len(self.whole) > 1
        if BEHAVIOUR in ("goaway-low", "goaway-twice") and isFirst:
            # The first request was answered; ten wait, of which four are taken.
            if len(self.whole) == 11:
                if BEHAVIOUR == "goaway-low":
                    self.go_away()
                else:
                    self.sock.sendall(frame(7, 0, 0, b"\x7f\xff\xff\xff" + bytes(4)) + frame(6, 0, 0, b"12345678"))
        elif BEHAVIOUR == "refuse" and isFirst:
            self.h2.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM)
        elif BEHAVIOUR == "reset" and isFirst:
            self.h2.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
        elif BEHAVIOUR == "cut" and isFirst:
            if len(self.whole) == 11:
                # Half of a frame's head, and no close_notify.
                self.sock.sendall(b"\0\0\x08")
                self.closing = True
                os.close(self.sock.detach())
        elif BEHAVIOUR == "flood" and isFirst and len(self.whole) <= 11:
            if len(self.whole) == 11:
                self.sock.sendall(frame(6, 0, 0, b"12345678") * 5000 + frame(4, 0, 0, b"") * 500)
                for held in self.whole[1:]:
                    self.answer(held, 200)
        elif BEHAVIOUR == "decorated":
            self.h2.send_headers(stream, [(":status", "103"), ("link", "</style.css>")])
            self.answer(stream, 200, trailers=True)
        elif BEHAVIOUR != "early":
            self.answer(stream, 200)

    def go_away(self):
        # By hand: h2 neither says nor hears anything after a GOAWAY of its own.
        last = self.whole[4]
        self.sock.sendall(frame(7, 0, 0, last.to_bytes(4, "big") + bytes(4) + b'{"reason":"Shutdown"}'))
        for held in self.whole[1:5]:
            # An indexed header (RFC 7541): `:status: 200`.
            self.sock.sendall(frame(1, 5, held, b"\x88"))


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def serve(listener, context):
    number = 0
    while True:
        sock, _ = listener.accept()
        number += 1
        try:
            secured = context.wrap_socket(sock, server_side=True)
        except (OSError, ssl.SSLError):
            continue
        threading.Thread(target=Connection(number, secured).run, daemon=True).start()


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
context.set_alpn_protocols(["h2"])
listener = socket.create_server(("127.0.0.1", 0), backlog=16)
print(listener.getsockname()[1], flush=True)
threading.Thread(target=serve, args=(listener, context), daemon=True).start()
sys.stdin.read()
