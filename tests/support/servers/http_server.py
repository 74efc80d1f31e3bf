"""A small aiohttp server for tests, a process of its own: prints its address, then answers /double/<n>."""

import asyncio

from aiohttp import web

seen = set()


async def double(request):
    n = int(request.match_info["n"])
    if n % 10 == 0 and n not in seen:
        seen.add(n)
        return web.Response(status=503)
    await asyncio.sleep(0.002)
    return web.json_response(2 * n)


async def serve():
    app = web.Application()
    app.add_routes([web.get("/double/{n}", double)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
