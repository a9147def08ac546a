"""As with_aioapns.py, with httpx and its HTTP/2, and a provider token made with PyJWT. A request may also have "method", "path" and "headers"."""

import asyncio
import json
import sys
import time

import httpx
import jwt


async def main():
    port, ca, key, key_id, team, topic = sys.argv[1:]
    with open(key) as file:
        token = jwt.encode({"iss": team, "iat": int(time.time())}, file.read(), algorithm="ES256", headers={"kid": key_id})
    async with httpx.AsyncClient(http2=True, verify=ca, base_url=f"https://localhost:{port}", timeout=20) as client:

        async def send(wish):
            headers = {"authorization": f"bearer {token}", "apns-topic": wish.get("topic", topic), "apns-push-type": wish.get("push_type", "alert")}
            for name in ("id", "priority", "collapse_id"):
                if name in wish:
                    headers["apns-" + name.replace("_", "-")] = str(wish[name])
            headers.update(wish.get("headers", {}))
            return await client.request(
                wish.get("method", "POST"), wish.get("path") or "/3/device/" + wish["token"], headers=headers,
                content=json.dumps(wish["payload"]).encode())

        for line in sys.stdin:
            wish = json.loads(line)
            answers = await asyncio.gather(*(send(wish) for _ in range(wish.get("count", 1))))
            assert {answer.http_version for answer in answers} == {"HTTP/2"}
            assert len({(answer.status_code, answer.content) for answer in answers}) == 1, answers
            answer = answers[0]
            if "id" in wish and answer.status_code == 200:
                assert answer.headers["apns-id"] == wish["id"], answer.headers
            body = answer.json() if answer.content else {}
            print(json.dumps({"status": answer.status_code, "reason": body.get("reason"), "timestamp": body.get("timestamp")}), flush=True)


asyncio.run(asyncio.wait_for(main(), timeout=50))
