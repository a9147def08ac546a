"""Sends what the test asks for with aioapns: python with_aioapns.py PORT CA KEY KEY_ID TEAM_ID TOPIC, then one JSON request per line.

A request is {"token", "payload"} with, as wanted, "topic", "id", "priority", "push_type", "collapse_id"; {"count": N} sends it N times at once.
An answer is {"status", "reason", "timestamp"}, one line for each request.
"""

import asyncio
import json
import ssl
import sys

from aioapns import APNs, NotificationRequest, PushType
from aioapns.connection import APNsProductionClientProtocol


async def main():
    port, ca, key, key_id, team, topic = sys.argv[1:]
    APNsProductionClientProtocol.APNS_SERVER = "localhost"
    APNsProductionClientProtocol.APNS_PORT = int(port)
    # One connection: on a second one aioapns would send many requests before it has read that one is allowed, as with Apple.
    with open(key) as file:
        client = APNs(
            key=file.read(), key_id=key_id, team_id=team, topic=topic, max_connections=1,
            ssl_context=ssl.create_default_context(cafile=ca))

    async def send(wish):
        return await client.send_notification(NotificationRequest(
            device_token=wish["token"], message=wish["payload"], notification_id=wish.get("id"), priority=wish.get("priority"),
            push_type=PushType(wish.get("push_type", "alert")), apns_topic=wish.get("topic"), collapse_key=wish.get("collapse_id")))

    for line in sys.stdin:
        wish = json.loads(line)
        answers = await asyncio.gather(*(send(wish) for _ in range(wish.get("count", 1))))
        assert len({(answer.status, answer.description) for answer in answers}) == 1, answers
        answer = answers[0]
        print(json.dumps({"status": int(answer.status), "reason": answer.description or None, "timestamp": answer.timestamp}), flush=True)


asyncio.run(asyncio.wait_for(main(), timeout=50))
